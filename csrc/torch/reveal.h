// Members that torch keeps to itself, found by the compiler and not by counting bytes: the arguments of an explicit
// instantiation may name private members, and a friend that is defined there hands the pointer out. member(Tag()) is it.
#pragma once

#define REVEAL(Tag, Member)                                       \
  struct Tag {                                                    \
    friend constexpr auto member(Tag);                            \
  };                                                              \
  template <auto member_of_torch>                                 \
  struct Tag##Revealed {                                          \
    friend constexpr auto member(Tag) { return member_of_torch; } \
  };                                                              \
  template struct Tag##Revealed<Member>;
