import fc, { type StringConstraints } from 'fast-check'

const codePoint = fc.oneof(fc.nat(0x7f), fc.nat(0x10ffff)).map((code) => String.fromCodePoint(code))

/** Any code points, lone surrogates too. fast-check's own `unit: 'binary'` makes a table of all of them, for over a second in each process. */
export function anyText(constraints: Omit<StringConstraints, 'unit'> = {}): fc.Arbitrary<string> {
  return fc.string({ ...constraints, unit: codePoint })
}
