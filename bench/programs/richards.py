"""Richards: the kernel of a small operating system, simulated (after Martin Richards' benchmark of 1980).

Six tasks of fixed priorities pass packets to each other through queues: an idle task that wakes the devices in a
pseudo-random order, a worker that fills packets, two handlers that take them apart and two devices. The kernel always
runs the task of the highest priority that is neither held nor suspended.

What it asks of a loop: many short methods, polymorphic calls, attributes of instances read and written, bit tests,
`None` tests.
"""

IDLE, WORKER, HANDLER_A, HANDLER_B, DEVICE_A, DEVICE_B = range(6)
TASK_COUNT = 6

FOR_DEVICE, FOR_WORK = range(2)
PACKET_SIZE = 4

# A task's state: any combination of these bits; 0 means that it is running.
RUNNABLE = 1
SUSPENDED = 2
HELD = 4
WAITING_WITH_PACKET = RUNNABLE | SUSPENDED

IDLE_ROUNDS = 1000
# The counts that Richards' benchmark has for 1,000 rounds of the idle task, in any language.
EXPECTED_QUEUED = 2322
EXPECTED_HELD = 928

ALPHABET_SIZE = 26
FEEDBACK = 0xD008


class Packet:
    """A message: a link of the queue it waits in, who it is for (then: who it came from), and its data."""

    def __init__(self, link, task_id, kind):
        self.link = link
        self.task_id = task_id
        self.kind = kind
        self.cursor = 0
        self.data = [0] * PACKET_SIZE

    def append_to(self, queue):
        """Put this packet at the end of `queue` and return the queue's new head."""
        self.link = None
        if queue is None:
            return self
        last = queue
        while last.link is not None:
            last = last.link
        last.link = self
        return queue


class Task:
    """A task as the kernel sees it; what it does when it runs is `step` of a subclass.

    `step` gets the packet the task was waiting for, or None, and returns the task that should be looked at next.
    """

    def __init__(self, kernel, task_id, priority, queue=None):
        self.kernel = kernel
        self.task_id = task_id
        self.priority = priority
        self.queue = queue
        self.state = SUSPENDED if queue is None else WAITING_WITH_PACKET
        self.link = None

    def __repr__(self):
        return f"<{type(self).__name__} {self.task_id} state={self.state}>"

    def step(self, packet):
        raise NotImplementedError

    def is_blocked(self):
        return self.state & HELD != 0 or self.state == SUSPENDED

    def outranks(self, other):
        return self.priority > other.priority

    def mark_running(self):
        self.state = 0

    def mark_runnable(self):
        self.state |= RUNNABLE

    def mark_suspended(self):
        self.state |= SUSPENDED

    def mark_held(self):
        self.state |= HELD

    def mark_released(self):
        self.state &= ~HELD

    def run(self):
        """Take the next packet, if this is what the task waited for, and do one step."""
        packet = None
        if self.state == WAITING_WITH_PACKET:
            packet = self.queue
            self.queue = packet.link
            if self.queue is None:
                self.mark_running()
            else:
                self.state = RUNNABLE
        return self.step(packet)

    def receive(self, packet, sender):
        """Queue `packet`; return the more important of the two tasks if that woke this one."""
        if self.queue is None:
            self.queue = packet
            self.mark_runnable()
            if self.outranks(sender):
                return self
        else:
            self.queue = packet.append_to(self.queue)
        return sender


class IdleTask(Task):
    """Release one of the two devices at each step, chosen by a shift register, for a number of rounds."""

    def __init__(self, kernel, task_id, priority, rounds):
        super().__init__(kernel, task_id, priority)
        self.register = 1
        self.rounds = rounds

    def step(self, packet):
        self.rounds -= 1
        if self.rounds == 0:
            return self.kernel.hold_current()
        if self.register & 1 == 0:
            self.register >>= 1
            return self.kernel.release(DEVICE_A)
        self.register = (self.register >> 1) ^ FEEDBACK
        return self.kernel.release(DEVICE_B)


class WorkerTask(Task):
    """Fill each packet with the next letters and send it to the two handlers in turn."""

    def __init__(self, kernel, task_id, priority, queue):
        super().__init__(kernel, task_id, priority, queue)
        self.destination = HANDLER_A
        self.letter = 0

    def step(self, packet):
        if packet is None:
            return self.kernel.suspend_current()
        self.destination = HANDLER_B if self.destination == HANDLER_A else HANDLER_A
        packet.task_id = self.destination
        packet.cursor = 0
        for i in range(PACKET_SIZE):
            self.letter += 1
            if self.letter > ALPHABET_SIZE:
                self.letter = 1
            packet.data[i] = self.letter
        return self.kernel.send(packet)


class HandlerTask(Task):
    """Pass the letters of work packets on, one by one, in packets for the device; give emptied packets back."""

    def __init__(self, kernel, task_id, priority, queue):
        super().__init__(kernel, task_id, priority, queue)
        self.work = None
        self.free = None

    def step(self, packet):
        if packet is not None:
            if packet.kind == FOR_WORK:
                self.work = packet.append_to(self.work)
            else:
                self.free = packet.append_to(self.free)
        work = self.work
        if work is not None:
            cursor = work.cursor
            if cursor >= PACKET_SIZE:
                self.work = work.link
                return self.kernel.send(work)
            if self.free is not None:
                letter = self.free
                self.free = letter.link
                letter.cursor = work.data[cursor]
                work.cursor = cursor + 1
                return self.kernel.send(letter)
        return self.kernel.suspend_current()


class DeviceTask(Task):
    """Hold a packet until the idle task releases the device, then send it back."""

    def __init__(self, kernel, task_id, priority):
        super().__init__(kernel, task_id, priority)
        self.pending = None

    def step(self, packet):
        if packet is not None:
            self.pending = packet
            return self.kernel.hold_current()
        if self.pending is None:
            return self.kernel.suspend_current()
        done = self.pending
        self.pending = None
        return self.kernel.send(done)


class Kernel:
    """The tasks, as a chain in the order of their priorities, and the one that runs."""

    def __init__(self):
        self.table = [None] * TASK_COUNT
        self.first = None
        self.current = None
        self.queued = 0
        self.held = 0

    def add(self, task):
        """Put `task` at the head of the chain: tasks are added in the order of rising priorities."""
        task.link = self.first
        self.first = task
        self.table[task.task_id] = task
        return task

    def find_task(self, task_id):
        task = self.table[task_id]
        if task is None:
            raise LookupError(f"no task {task_id}")
        return task

    def schedule(self):
        """Run until every task is held or suspended."""
        self.current = self.first
        while self.current is not None:
            task = self.current
            if task.is_blocked():
                self.current = task.link
            else:
                self.current = task.run()

    def send(self, packet):
        receiver = self.find_task(packet.task_id)
        sender = self.current
        self.queued += 1
        packet.link = None
        packet.task_id = sender.task_id
        return receiver.receive(packet, sender)

    def release(self, task_id):
        task = self.find_task(task_id)
        task.mark_released()
        return task if task.outranks(self.current) else self.current

    def hold_current(self):
        self.held += 1
        self.current.mark_held()
        return self.current.link

    def suspend_current(self):
        self.current.mark_suspended()
        return self.current


def make_queue(length, task_id, kind):
    queue = None
    for _ in range(length):
        queue = Packet(queue, task_id, kind)
    return queue


def make_kernel(rounds):
    kernel = Kernel()
    kernel.add(IdleTask(kernel, IDLE, 0, rounds)).mark_running()
    kernel.add(WorkerTask(kernel, WORKER, 1000, make_queue(2, WORKER, FOR_WORK)))
    kernel.add(HandlerTask(kernel, HANDLER_A, 2000, make_queue(3, DEVICE_A, FOR_DEVICE)))
    kernel.add(HandlerTask(kernel, HANDLER_B, 3000, make_queue(3, DEVICE_B, FOR_DEVICE)))
    kernel.add(DeviceTask(kernel, DEVICE_A, 4000))
    kernel.add(DeviceTask(kernel, DEVICE_B, 5000))
    return kernel


def run(n):
    """Simulate the system `n` times and return the packets queued and the tasks held in all."""
    queued = held = 0
    for _ in range(n):
        kernel = make_kernel(IDLE_ROUNDS)
        kernel.schedule()
        if (kernel.queued, kernel.held) != (EXPECTED_QUEUED, EXPECTED_HELD):
            raise AssertionError(f"queued {kernel.queued}, held {kernel.held} in one simulation")
        queued += kernel.queued
        held += kernel.held
    return queued, held


EXPECTED = {1: (EXPECTED_QUEUED, EXPECTED_HELD), 3: (3 * EXPECTED_QUEUED, 3 * EXPECTED_HELD)}
