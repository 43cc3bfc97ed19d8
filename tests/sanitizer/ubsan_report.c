/* Linked into _C in the asan flavour only: sends UBSan's reports to files, as ASAN_OPTIONS=log_path does for ASan's.
 *
 * GCC's libubsan ignores UBSAN_OPTIONS=log_path when libasan is there too, and a report on the stderr of a child
 * process may be swallowed by the test that started it. Both libraries export __sanitizer_set_report_path, hence the
 * look-up in libubsan itself. Clang has one run-time library for both: nothing is found, and nothing is needed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

__attribute__((constructor)) static void set_ubsan_report_path(void) {
  const char* path = getenv("ALTERNATOR_UBSAN_REPORTS");
  void* library = path ? dlopen("libubsan.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (library == NULL) return;
  void (*set_report_path)(const char*);
  *(void**)&set_report_path = dlsym(library, "__sanitizer_set_report_path");
  if (set_report_path) set_report_path(path);
}
