import fc from 'fast-check'

/** JSON as bytes, one character each: every value in every spelling that JSON has, and UTF-8 that is none. */
export type Spelled = string

const WHITE_SPACE = fc.stringMatching(/^[ \t\n\r]{0,3}$/)
const SIMPLE_ESCAPE = fc.constantFrom('\\"', '\\\\', '\\/', '\\b', '\\f', '\\n', '\\r', '\\t')
const UNICODE_ESCAPE = fc
  .oneof(fc.integer({ min: 0, max: 0xffff }), fc.integer({ min: 0xd800, max: 0xdfff }), fc.integer({ min: 0, max: 0x7f }))
  .chain((unit) => fc.constantFrom(escaped(unit), escaped(unit).toUpperCase().replace('\\U', '\\u')))
const PAIR_ESCAPE = fc.constantFrom('\\ud83d\\ude00', '\\uD83D\\uDE00', '\\ud83d\\ud83d\\ude00', '\\ude00\\ud83d', '\\ud83d-\\ude00')
const RAW = fc
  .string({ unit: fc.oneof(fc.constantFrom('a', 'Z', '/', ' ', '\x7f'), fc.constantFrom('é', '€', '\ufeff', '\u2028', '😀', '\uffff')) })
  .map(utf8)
/** Leads without followers, followers without leads, overlong forms, surrogates, and what lies above Unicode. */
const NOT_UTF8 = fc.oneof(
  fc.array(fc.integer({ min: 0x80, max: 0xff }), { minLength: 1, maxLength: 4 }).map((bytes) => String.fromCharCode(...bytes)),
  fc.constantFrom('\xc3', '\xe2\x82', '\xf0\x9f\x98', '\xed\xa0\x80', '\xc0\xaf', '\xf4\x90\x80\x80', '\x80'),
)

export function spelledString(): fc.Arbitrary<Spelled> {
  const piece = fc.oneof({ weight: 4, arbitrary: RAW }, SIMPLE_ESCAPE, UNICODE_ESCAPE, PAIR_ESCAPE, NOT_UTF8)
  return fc.array(piece, { maxLength: 5 }).map((pieces) => `"${pieces.join('')}"`)
}

function spelledNumber(): fc.Arbitrary<Spelled> {
  return fc.oneof(
    fc.nat(5000).map(String),
    fc.stringMatching(/^-?(?:0|[1-9]\d{0,25})(?:\.\d{1,25})?(?:[eE][+-]?\d{1,3})?$/),
    fc.constantFrom('1e2', '50.0', '-0', '1e999', '1e308', '9007199254740991', '9007199254740992', '1e-9', '0e0', '1E+2'),
  )
}

/** A name, with some of its letters as escapes. */
export function spelledName(name: string): fc.Arbitrary<Spelled> {
  return fc.array(fc.boolean(), { maxLength: 3 }).map((isEscaped) => {
    const letters = Array.from(name, (letter, i) => (isEscaped[i] ? escaped(letter.charCodeAt(0)) : letter))
    return `"${letters.join('')}"`
  })
}

export function spelledList(value: fc.Arbitrary<Spelled>): fc.Arbitrary<Spelled> {
  return fc
    .tuple(fc.array(fc.tuple(WHITE_SPACE, value, WHITE_SPACE), { maxLength: 4 }), WHITE_SPACE)
    .map(([values, space]) => `[${values.length === 0 ? space : values.map((parts) => parts.join('')).join(',')}]`)
}

/** `members` are a spelled name and its spelled value each. */
export function spelledObject(members: fc.Arbitrary<readonly (readonly [Spelled, Spelled])[]>): fc.Arbitrary<Spelled> {
  return fc.tuple(members, WHITE_SPACE).map(([all, space]) => {
    return `{${all.length === 0 ? space : all.map(([name, value]) => `${space}${name}${space}:${space}${value}${space}`).join(',')}}`
  })
}

/**
 * A value as other writers of JSON would write it: with white space, escapes, other spellings of its numbers, its members in another order, others between
 * them, and names that come twice, of which the last one counts. JSON.parse reads the same from it but for the members between.
 */
export function respelled(value: fc.Arbitrary<unknown>): fc.Arbitrary<string> {
  return fc.tuple(value, fc.array(fc.nat(11), { minLength: 1, maxLength: 60 })).map(([given, choices]) => {
    let at = 0
    return respelledValue(given, () => choices[at++ % choices.length]!)
  })
}

const SPACES = ['', '', '', ' ', '\n', '\t ', '\r\n']
/** What comes before the value that counts, under the same name. */
const DECOYS = ['null', '7', '"9"', '[]', '{}', 'true', '-1']

function respelledValue(value: unknown, choose: () => number): string {
  const space = (): string => SPACES[choose() % SPACES.length]!
  if (typeof value === 'string') return respelledString(value, choose)
  if (typeof value === 'number') return respelledNumber(value, choose)
  if (Array.isArray(value)) return `[${space()}${value.map((each) => respelledValue(each, choose) + space()).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).flatMap(([name, member]) => {
    const written = (text: string): string => `${space()}${respelledString(name, choose)}${space()}:${space()}${text}${space()}`
    const decoy = choose() > 8 ? [written(DECOYS[choose() % DECOYS.length]!)] : []
    const other = choose() > 9 ? [`${JSON.stringify(`unknown ${name}`)}:{"a":[1,{"b":"c"}]}`] : []
    return [[...other, ...decoy, written(respelledValue(member, choose))].join(',')]
  })
  const from = members.length === 0 ? 0 : choose() % members.length
  return `{${space()}${[...members.slice(from), ...members.slice(0, from)].join(',')}}`
}

function respelledString(text: string, choose: () => number): string {
  const units = text.split('').map((unit) => (choose() > 8 ? escaped(unit.charCodeAt(0)) : JSON.stringify(unit).slice(1, -1)))
  return `"${units.join('')}"`
}

function respelledNumber(value: number, choose: () => number): string {
  if (Object.is(value, -0)) return '-0'
  const text = String(value)
  if (!/^-?[1-9]\d{0,14}$/.test(text)) return text
  return [text, `${text}.0`, `${text}e0`, `${text}0e-1`, `${text}.00E+00`][Math.max(0, choose() - 7)]!
}

/** Any value, whose objects have these names, some of them more than once unless they are `unique`. */
export function spelledValue(names: readonly string[], isUnique = false, depthSize: 'small' | 'medium' = 'small'): fc.Arbitrary<Spelled> {
  const { value } = fc.letrec<{ value: Spelled }>((tie) => ({
    value: fc.oneof(
      { depthSize, withCrossShrink: true },
      spelledString(),
      spelledNumber(),
      fc.constantFrom('true', 'false', 'null'),
      spelledList(tie('value')),
      spelledObject(isUnique ? uniqueMembers(tie('value')) : anyMembers(names, tie('value'))),
    ),
  }))
  return value
}

export function anyMembers(names: readonly string[], value: fc.Arbitrary<Spelled>): fc.Arbitrary<(readonly [Spelled, Spelled])[]> {
  const name = fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...names).chain(spelledName) }, spelledString())
  return fc.array(fc.tuple(name, value), { maxLength: 5 })
}

function uniqueMembers(value: fc.Arbitrary<Spelled>): fc.Arbitrary<(readonly [Spelled, Spelled])[]> {
  const member = fc.tuple(spelledString(), value)
  return fc.uniqueArray(member, { maxLength: 4, selector: ([name]) => JSON.parse(Buffer.from(name, 'latin1').toString()) })
}

/** Changes a text in a few places, mostly to what is no JSON any more. */
export function damaged(text: fc.Arbitrary<Spelled>): fc.Arbitrary<Spelled> {
  const sign = fc.oneof(
    fc.constantFrom(...'{}[],:"\\ \n0-+.eEtrufalsn\x00\x1f\ufeff'),
    fc.integer({ min: 0, max: 255 }).map((byte) => String.fromCharCode(byte)),
  )
  const edit = fc.tuple(fc.nat(1000), fc.nat(2), fc.oneof(fc.constant(''), sign.map(utf8)))
  return fc
    .tuple(text, fc.array(edit, { minLength: 1, maxLength: 3 }))
    .map(([whole, edits]) => edits.reduce((left, [at, cut, put]) => splice(left, at % (left.length + 1), cut, put), whole))
}

/** Where to cut the text for reading it in pieces. */
export const CUTS = fc.array(fc.nat(200), { maxLength: 20 })

export function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const found: Buffer[] = []
  let from = 0
  for (const length of cuts) {
    found.push(bytes.subarray(from, from + length))
    from += length
  }
  found.push(bytes.subarray(from))
  return found
}

function splice(text: string, at: number, cut: number, put: string): string {
  return text.slice(0, at) + put + text.slice(at + cut)
}

function escaped(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, '0')}`
}

function utf8(text: string): string {
  return Buffer.from(text).toString('latin1')
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
