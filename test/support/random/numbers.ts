import fc from 'fast-check'

/** Tokens per ms over all that a bundle may ask for: 1e-9 to 1e15 a second. */
export const anyRate = fc.oneof(fc.double({ min: 1e-12, max: 1e12, noNaN: true }), fc.double({ min: 0.001, max: 10, noNaN: true }))

/** Whole or not, over all that a bundle may ask for. */
export const anyBurst = fc.oneof(
  fc.double({ min: 1, max: 999_999_999_999_999, noNaN: true }),
  fc.double({ min: 1, max: 2000, noNaN: true }),
  fc.integer({ min: 1, max: 2000 }),
)

/** A monotonic clock's reading: from boot to thirty thousand years later. */
export const anyNowMs = fc.oneof(fc.double({ min: 0, max: 1e15, noNaN: true }), fc.integer({ min: 0, max: 4_000_000_000 }))

/** A part of something, from nothing to all of it. */
export const anyShare = fc.integer({ min: 0, max: 2 ** 30 }).map((units) => units / 2 ** 30)

/** Multiples of 2^-10 of at most 20 bits: sums and products of a few of them are exact in a double. */
export const exactRate = fc.oneof(fc.integer({ min: 1, max: 1024 }), fc.integer({ min: 1, max: 2 ** 20 })).map((units) => units / 1024)

/** Multiples of 1/8, at least 1. */
export const exactBurst = fc.integer({ min: 8, max: 2 ** 20 }).map((units) => units / 8)
