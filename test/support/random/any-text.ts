import fc, { type StringConstraints } from 'fast-check'

const codePoint = fc.oneof(fc.nat(0x7f), fc.nat(0x10ffff)).map((code) => String.fromCodePoint(code))

/**
 * Any code points, lone surrogates too. Of its own `unit: 'binary'` fast-check makes a table of all of them, for over a second in each process, and of
 * `unit: 'grapheme'` a table of most.
 */
export function anyText(constraints: Omit<StringConstraints, 'unit'> = {}): fc.Arbitrary<string> {
  return fc.string({ ...constraints, unit: codePoint })
}

/** The same without lone surrogates, which UTF-8 has not. */
export function wellFormedText(constraints: Omit<StringConstraints, 'unit'> = {}): fc.Arbitrary<string> {
  return anyText(constraints).map((text) => text.toWellFormed())
}
