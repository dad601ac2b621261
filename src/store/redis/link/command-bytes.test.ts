import { expect, test } from 'vitest'
import { CommandBytes } from './command-bytes.ts'

function written(...commands: readonly (readonly string[])[]): string {
  const bytes = new CommandBytes()
  for (const parts of commands) {
    bytes.begin(parts.length)
    for (const part of parts) bytes.add(part)
  }
  return bytes.take().toString()
}

/** The same commands, written in the simplest way. */
function expected(...commands: readonly (readonly string[])[]): string {
  return commands
    .map((parts) => `*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join('')}`)
    .join('')
}

const LONG = 'x'.repeat(300)
const COMMANDS = [
  ['get', 'edge:a'],
  ['set', 'edge:größe', '日本語', ''],
  ['eval', LONG, `${LONG}ü`, '0', '\r\n$1\r\n'],
  ['evalsha', 'a'.repeat(40), ...Array.from({ length: 1000 }, (_, i) => String(i * 37))],
  ['set', '😀', '\u{10ffff}', '\u0000\u007f\u0080'],
]

test('commands are written as Redis reads them, whatever is in their parts', () => {
  expect(written(...COMMANDS)).toBe(expected(...COMMANDS))
})

test('parts of all lengths are written in full', () => {
  const parts = Array.from({ length: 1100 }, (_, length) => 'y'.repeat(length))
  expect(written(parts)).toBe(expected(parts))
})

test('a buffer that is used again has nothing of before, and one that is not stays as it is', () => {
  const bytes = new CommandBytes()
  const write = (text: string) => {
    bytes.begin(1)
    bytes.add(text)
    return bytes.take()
  }
  const first = write('first')
  const second = write('second')
  expect([String(first), String(second)]).toEqual([expected(['first']), expected(['second'])])
  bytes.keep(second)
  expect(String(write('3'))).toBe(expected(['3']))
  expect(String(first)).toBe(expected(['first']))
})

test('numbers are parts of packed doubles, exactly as they are, in any position and number', () => {
  const numbers = [0, -0, 1, -1, 0.1, Number.MAX_VALUE, Number.MIN_VALUE, Number.POSITIVE_INFINITY, 1_795_045_931_374.4929]
  for (const list of [[], numbers.slice(0, 1), numbers, Array.from({ length: 5000 }, (_, i) => i / 7)]) {
    const bytes = new CommandBytes()
    bytes.begin(3)
    bytes.add('take')
    bytes.addNumbers(list)
    bytes.add('end')
    const head = `*3\r\n$4\r\ntake\r\n$${list.length * 8}\r\n`
    const taken = bytes.take()
    expect(taken.toString('latin1', 0, head.length)).toBe(head)
    expect(list.map((_, i) => taken.readDoubleLE(head.length + 8 * i))).toEqual(list)
    expect(taken.toString('latin1', head.length + 8 * list.length)).toBe('\r\n$3\r\nend\r\n')
  }
})

test('what is cleared is not sent', () => {
  const bytes = new CommandBytes()
  bytes.begin(1)
  bytes.clear()
  expect([bytes.length, bytes.take().length]).toEqual([0, 0])
})
