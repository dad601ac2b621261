import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readEventData, SseFraming } from '../../src/llm/sse-framing.ts'
import { spliceUsage } from '../support/llm/splice-usage.ts'
import { pushed } from '../support/llm/sse-pieces.ts'
import { runs } from '../support/run/property-runs.ts'

const USAGE = '{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}'

const anyKey = fc.oneof(
  fc.constantFrom('usage', 'n', 'null', 'a"usage":null', '\\', '{', '}', 'ü', '😀'),
  fc.string({ unit: 'grapheme', maxLength: 6 }),
)
const anyValue = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom(null, true, 'usage', '"usage":null', '}', '\\"', 'Straße 😀', 12.5),
    fc.string({ unit: 'grapheme', maxLength: 8 }),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(anyKey, tie('value'), { maxKeys: 3 }),
  ),
})).value
const anyObject = fc.dictionary(
  anyKey.filter((key) => key !== 'usage' && key !== '__proto__'),
  anyValue,
  { maxKeys: 5 },
)
/** How JSON is laid out: close, or over several data lines. */
const anyIndent = fc.constantFrom('', ' ', '\t')
const anyLineEnd = fc.constantFrom('\n', '\r\n', '\r')
const anyPrefix = fc.constantFrom('data: ', 'data:')

function eventOf(json: string, prefix: string, lineEnd: string): string {
  const lines = json.split('\n').map((line) => `${prefix}${line}${lineEnd}`)
  return `event: {"usage":null}${lineEnd}${lines.join('')}: {"usage":null}${lineEnd}${lineEnd}`
}

function read(event: string): { text: string; spans: readonly number[] } {
  return readEventData(pushed(new SseFraming(1 << 20), event)[0]!)!
}

function splice(event: string, replacesNull: boolean): string {
  return spliceUsage(Buffer.from(event), read(event).spans, USAGE, replacesNull ? null : undefined).toString()
}

describe('usage that is put into an event', () => {
  test('is there beside all that was, and nothing else has changed', () => {
    fc.assert(
      fc.property(anyObject, anyIndent, anyPrefix, anyLineEnd, (object, indent, prefix, lineEnd) => {
        const event = eventOf(JSON.stringify(object, undefined, indent), prefix, lineEnd)
        const out = splice(event, false)
        expect(JSON.parse(read(out).text)).toEqual({ ...object, usage: JSON.parse(USAGE) })
        const added = `${Object.keys(object).length === 0 ? '' : ','}"usage":${USAGE}`
        const at = out.lastIndexOf(added)
        expect(out.slice(0, at) + out.slice(at + added.length)).toBe(event)
      }),
      { numRuns: runs(34) },
    )
  })

  test('takes the place of null, and nothing else has changed', () => {
    fc.assert(
      fc.property(anyObject, fc.nat(5), anyIndent, anyPrefix, anyLineEnd, (object, at, indent, prefix, lineEnd) => {
        const entries = Object.entries(object)
        // Keys that look like numbers come first in any object: the place among the others is what varies.
        const whole = Object.fromEntries([...entries.slice(0, at), ['usage', null], ...entries.slice(at)])
        const event = eventOf(JSON.stringify(whole, undefined, indent), prefix, lineEnd)
        const out = splice(event, true)
        expect(JSON.parse(read(out).text)).toEqual({ ...object, usage: JSON.parse(USAGE) })
        expect(out.length).toBe(event.length - 'null'.length + USAGE.length)
        expect(out.replace(USAGE, 'null')).toBe(event)
      }),
      { numRuns: runs(34) },
    )
  })
})
