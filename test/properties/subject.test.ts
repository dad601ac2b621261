import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SubjectWords } from '../../src/store/subject.ts'
import { runs } from '../support/run/property-runs.ts'

/** Texts whose code units look like lengths and counts, beside ordinary ones. */
const text = fc.oneof(fc.string({ unit: fc.constantFrom('\0', '\u0001', '\u0002', 'a', '\ud800', '\uffff'), maxLength: 4 }), fc.string())
const texts = fc.array(text, { maxLength: 4 })

test('what a counter and its values are can be read back from the words', () => {
  fc.assert(
    fc.property(texts, texts, (identity, values) => {
      expect(decode(wordsOf(identity, values))).toEqual({ identity, values })
    }),
    { numRuns: runs(80) },
  )
})

test('two different subjects never feed the same words', () => {
  fc.assert(
    fc.property(texts, texts, texts, texts, (identity, values, otherIdentity, otherValues) => {
      fc.pre(JSON.stringify([identity, values]) !== JSON.stringify([otherIdentity, otherValues]))
      expect(wordsOf(identity, values)).not.toEqual(wordsOf(otherIdentity, otherValues))
    }),
    { numRuns: runs(80) },
  )
})

test('a text that moves from the identity to the values makes another subject', () => {
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 5 }), fc.nat(5), fc.nat(5), (list, cut, otherCut) => {
      fc.pre(Math.min(cut, list.length) !== Math.min(otherCut, list.length))
      expect(wordsOf(list.slice(0, cut), list.slice(cut))).not.toEqual(wordsOf(list.slice(0, otherCut), list.slice(otherCut)))
    }),
  )
})

function wordsOf(identity: readonly string[], values: readonly string[]): number[] {
  const subject = new SubjectWords()
  subject.addIdentity(identity)
  for (const value of values) subject.addText(value)
  return [...subject.words.subarray(0, subject.length)]
}

function decode(words: readonly number[]): { identity: string[]; values: string[] } {
  let at = 0
  const readText = (): string => {
    const length = words[at++]!
    let read = ''
    while (read.length + 1 < length) {
      const word = words[at++]!
      read += String.fromCharCode(word >>> 16, word & 0xffff)
    }
    return read.length < length ? read + String.fromCharCode(words[at++]!) : read
  }
  const count = words[at++]!
  const identity = Array.from({ length: count }, readText)
  const values: string[] = []
  while (at < words.length) values.push(readText())
  return { identity, values }
}
