import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runs } from '../../../test/support/run/property-runs.ts'
import { linesOf } from '../downstream.ts'
import { parseHead } from './response-head.ts'

const PIECES = [
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/2.0',
  ' ',
  '200',
  '099',
  '99',
  '1000',
  ' OK',
  'A',
  'b:',
  ': ',
  ':',
  '\t',
  '\r\n',
  '\r\n',
  '\r',
  '\n',
  '\0',
  '\x7f',
  '\xff',
  'x',
]
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?$/
const FIELD_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*([\t\x20-\x7e\x80-\xff]*?)[\t ]*$/

test('a head is read as the grammar says, or refused', () => {
  const heads = fc.oneof(
    fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }).map((pieces) => pieces.join('')),
    fc.array(fc.constantFrom(...PIECES), { maxLength: 8 }).map((pieces) => `HTTP/1.1 200 OK\r\nA: ${pieces.join('')}`),
  )
  fc.assert(
    fc.property(heads, (head) => {
      expect(read(`${head}\r\n`)).toEqual(byGrammar(head))
    }),
    { numRuns: runs(300) },
  )
})

test.each([
  ['A: b', true],
  ['A:b', false],
  ['A:  b', false],
  ['A: b ', false],
  ['A:\tb', false],
  ['A:b\r\nC:  d', false],
  ['A: ', true],
  ['A:', false],
  ['A: b\r\nC: d', true],
])('the text of the lines is at hand where each is written as usual: %j', (lines, isUsual) => {
  const head = parseHead(`HTTP/1.1 200 OK\r\n${lines}\r\n`)
  expect(head.lines).toBe(isUsual ? linesOf([...head.fields]) : undefined)
})

function read(text: string): unknown {
  try {
    const { version, status, reason, fields, names } = parseHead(text)
    expect(names.map(({ lower }) => lower)).toEqual(fields.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase()))
    return { version, status, reason, fields }
  } catch {
    return undefined
  }
}

function byGrammar(head: string): unknown {
  const [first = '', ...lines] = head.split('\r\n')
  const start = STATUS_LINE.exec(first)
  const fields = lines.map((line) => FIELD_LINE.exec(line))
  if (start === null || fields.includes(null)) return undefined
  const [, minor, status, reason = ''] = start
  return { version: `1.${minor}`, status: Number(status), reason, fields: fields.flatMap((field) => [field![1], field![2]]) }
}
