"""n-body: the Sun and the four giant planets, advanced by a symplectic integrator.

What it asks of a loop: float arithmetic on locals, tuple unpacking in a `for`, list subscripts read and written;
hardly any call.

The only float function used is `sqrt`, which IEEE 754 rounds exactly: the checksum is the same everywhere, bit by bit.
"""

from itertools import combinations
from math import pi, sqrt

SOLAR_MASS = 4 * pi * pi
DAYS_PER_YEAR = 365.24
TIME_STEP = 0.01

# Position in astronomical units, velocity in units per day, mass in solar masses.
PLANETS = {
    "jupiter": (
        (4.84143144246472090e00, -1.16032004402742839e00, -1.03622044471123109e-01),
        (1.66007664274403694e-03, 7.69901118419740425e-03, -6.90460016972063023e-05),
        9.54791938424326609e-04,
    ),
    "saturn": (
        (8.34336671824457987e00, 4.12479856412430479e00, -4.03523417114321381e-01),
        (-2.76742510726411021e-03, 4.99852801234917238e-03, 2.30417297573763929e-05),
        2.85885980666130812e-04,
    ),
    "uranus": (
        (1.28943695621391310e01, -1.51111514016986312e01, -2.23307578892655734e-01),
        (2.96460137564761618e-03, 2.37847173959480950e-03, -2.96589568540237556e-05),
        4.36624404335156298e-05,
    ),
    "neptune": (
        (1.53796971148509165e01, -2.59193146099879641e01, 1.79258772950371181e-01),
        (2.68067772490389322e-03, 1.62824170038242295e-03, -9.51592254519715870e-05),
        5.15138902046611451e-05,
    ),
}


def make_bodies():
    """Return the bodies, the Sun first, each as (position, velocity, mass), with a total momentum of zero."""
    sun = ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], SOLAR_MASS)
    bodies = [sun]
    for position, velocity, mass in PLANETS.values():
        bodies.append((list(position), [v * DAYS_PER_YEAR for v in velocity], mass * SOLAR_MASS))
    for axis in range(3):
        momentum = sum(velocity[axis] * mass for _, velocity, mass in bodies)
        sun[1][axis] = -momentum / SOLAR_MASS
    return bodies


def advance(bodies, pairs, dt, steps):
    for _ in range(steps):
        for (p1, v1, m1), (p2, v2, m2) in pairs:
            x1, y1, z1 = p1
            x2, y2, z2 = p2
            dx = x1 - x2
            dy = y1 - y2
            dz = z1 - z2
            squared = dx * dx + dy * dy + dz * dz
            pull = dt / (squared * sqrt(squared))
            pull1 = m1 * pull
            pull2 = m2 * pull
            v1[0] -= dx * pull2
            v1[1] -= dy * pull2
            v1[2] -= dz * pull2
            v2[0] += dx * pull1
            v2[1] += dy * pull1
            v2[2] += dz * pull1
        for position, (vx, vy, vz), _ in bodies:
            position[0] += dt * vx
            position[1] += dt * vy
            position[2] += dt * vz


def measure_energy(bodies, pairs):
    energy = 0.0
    for _, (vx, vy, vz), mass in bodies:
        energy += 0.5 * mass * (vx * vx + vy * vy + vz * vz)
    for ((x1, y1, z1), _, m1), ((x2, y2, z2), _, m2) in pairs:
        dx = x1 - x2
        dy = y1 - y2
        dz = z1 - z2
        energy -= m1 * m2 / sqrt(dx * dx + dy * dy + dz * dz)
    return energy


def run(n):
    """Advance the system by `n` steps and return its energy."""
    bodies = make_bodies()
    pairs = list(combinations(bodies, 2))
    advance(bodies, pairs, TIME_STEP, n)
    return measure_energy(bodies, pairs)


# The first nine digits are those that every published version prints.
EXPECTED = {0: -0.1690751638285433, 1000: -0.16908760523462463}
