import { describe, expect, test } from 'vitest'
import { TextSize } from './text-size.ts'

function sizeOf(text: string | Buffer, pieceBytes = 1_000_000): TextSize {
  const size = new TextSize()
  const bytes = Buffer.from(text as string)
  for (let at = 0; at < bytes.length; at += pieceBytes) size.push(bytes, at, Math.min(at + pieceBytes, bytes.length))
  return size
}

/** The same in each run, and as irregular as what is compressed. */
function noise(length: number): Buffer {
  let state = 7
  const next = (): number => {
    state = (state * 48_271) % 0x7fff_ffff
    return state >> 8
  }
  return Buffer.from(Array.from({ length }, next))
}

const BASE64 = noise(30_000).toString('base64')
const PROSE = 'All work and no play makes Jack a dull boy. '.repeat(40)
const VECTOR = Array.from({ length: 1536 }, (_, i) => Math.sin(i) / 30)
/** Speech of some loudness, and silence, in 16 bits a sample. */
const SPEECH = Buffer.from(Int16Array.from({ length: 12_000 }, (_, i) => 300 * Math.sin(i / 9) * (1 + Math.sin(i / 3000))).buffer)
const SILENCE = Buffer.alloc(24_000)

function inJson(text: string): string {
  return `{"x":"${text}"}`
}

describe('the size of what is not understood', () => {
  test.each([
    ['prose', PROSE],
    ['prose in JSON', JSON.stringify({ answer: PROSE })],
    ['quoted prose', JSON.stringify({ answer: `"${PROSE}"\n\\`.repeat(9), more: [true, null, 'x'] })],
    ['words without spaces', inJson('word_word-word.'.repeat(300))],
    ['words in two cases', inJson('someWordSomeWord'.repeat(300))],
    ['words in upper case', inJson('SOME/OTHER+WORD'.repeat(300))],
    ['letters with lines between them', inJson('a_B_3_'.repeat(300))],
    ['digits', inJson('271828182845904'.repeat(300))],
    ['Chinese, all of it in escapes', inJson('\\u4e2d\\u6587'.repeat(600))],
    ['the same in JSON in JSON', inJson('\\\\u4e2d\\\\u6587'.repeat(600))],
    ['a short piece of base64', inJson(BASE64.slice(0, 200))],
    ['numbers in a string', inJson(VECTOR.join(','))],
    ['ids of tokens', `{"ids":[${Array.from({ length: 500 }, (_, i) => 10_000 + i * 37)}]}`],
  ])('is all of it: %s', (_, text) => {
    for (const pieceBytes of [1_000_000, 7, 1]) expect(sizeOf(text, pieceBytes).bytes).toBe(Buffer.byteLength(text))
  })

  test.each([
    ['base64', inJson(BASE64)],
    ['a small piece of it', inJson(BASE64.slice(0, 300))],
    ['with escaped slashes', inJson(BASE64.replaceAll('/', '\\/'))],
    ['the same in JSON in JSON', inJson(BASE64.replaceAll('/', '\\\\/'))],
    ['with plus signs as .NET writes them', inJson(BASE64.replaceAll('+', '\\u002B'))],
    ['in lines', inJson(BASE64.replace(/.{76}/g, '$&\\r\\n'))],
    ['for URLs', inJson(Buffer.from(BASE64, 'base64').toString('base64url'))],
    ['of speech', inJson(SPEECH.toString('base64'))],
    ['of silence', inJson(SILENCE.toString('base64'))],
    ['vectors', JSON.stringify({ x: [VECTOR, VECTOR.map((value) => value / 1e9)] })],
    ['vectors in lines', JSON.stringify([VECTOR], undefined, 2)],
    ['vectors of small whole numbers', JSON.stringify({ x: VECTOR.map((value) => Math.round(value * 3000)) })],
    ['log probabilities', `{"x":[${'{"y":-0.25},'.repeat(1)}-12.5]}`],
  ])('leaves out %s', (_, text) => {
    for (const pieceBytes of [1_000_000, 7, 1]) expect(sizeOf(text, pieceBytes).bytes).toBeLessThan(30)
  })

  test('is nothing where there is only white space', () => {
    expect(sizeOf('  \n\n \t').bytes).toBe(0)
  })

  test('has both parts of two', () => {
    const size = sizeOf(PROSE)
    size.add(sizeOf(inJson(BASE64)))
    expect([size.bytes < PROSE.length + 30, size.allBytes]).toEqual([true, PROSE.length + BASE64.length + 8])
  })

  test('tells what is no text', () => {
    expect(sizeOf(noise(10_000)).isBinary).toBe(true)
    for (const text of [PROSE, inJson(BASE64), Buffer.from(PROSE, 'utf16le'), '東京'.repeat(500), '\x1b[1mbold']) {
      expect(sizeOf(text).isBinary).toBe(false)
    }
  })
})
