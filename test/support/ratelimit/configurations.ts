import fc from 'fast-check'

/** A descriptor of a configuration, as its file has it. */
export interface Written {
  readonly key: string
  readonly value?: string
  readonly share_threshold?: boolean
  readonly shadow_mode?: boolean
  readonly rate_limit?: undefined | { readonly unit?: string; readonly requests_per_unit?: number; readonly unlimited?: boolean }
  readonly descriptors: readonly Written[]
}

export type Entries = readonly (readonly [key: string, value: string])[]

// Few keys and values, so that entries overlap and descriptors meet them. Keys are in order: to edge, order means nothing.
const KEYS = ['a', 'b', 'c']
const pattern = fc.option(fc.constantFrom('x', 'xy', 'xyz', 'y', 'x*', 'xy*', 'y*', '*'), { nil: undefined, freq: 3 })
const limit = fc.oneof(
  { weight: 6, arbitrary: fc.record({ unit: fc.constantFrom('minute', 'second'), requests_per_unit: fc.nat({ max: 3 }) }) },
  { weight: 1, arbitrary: fc.constant({ unlimited: true }) },
)

/** The descriptors of a file. */
export const CONFIGURATION = entriesBelow(0, 3)
const entry = fc.tuple(fc.constantFrom(...KEYS), fc.constantFrom('x', 'xy', 'xyz', 'xz', 'y', 'yz', 'z'))

/** What a call asks about. */
export const DESCRIPTOR: fc.Arbitrary<Entries> = fc
  .array(entry, { minLength: 1, maxLength: 3 })
  .map((entries) => entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))

/** Siblings differ in key or value, as they must. */
function entriesBelow(firstKey: number, depth: number): fc.Arbitrary<Written[]> {
  const one: fc.Arbitrary<Written> = fc.nat({ max: KEYS.length - 1 - firstKey }).chain((step) =>
    fc
      .record({
        value: pattern,
        isShared: fc.boolean(),
        shadow_mode: fc.nat({ max: 4 }).map((chance) => chance === 0),
        rate_limit: fc.option(limit, { nil: undefined, freq: 4 }),
        descriptors: depth === 1 ? fc.constant([]) : fc.oneof(fc.constant([]), entriesBelow(firstKey + step, depth - 1)),
      })
      .map(({ value, isShared, ...rest }) => ({
        key: KEYS[firstKey + step]!,
        ...(value !== undefined && { value }),
        share_threshold: isShared && value?.endsWith('*') === true,
        ...rest,
      })),
  )
  return fc.uniqueArray(one, { maxLength: 4, selector: ({ key, value }) => `${key} ${value}` })
}
