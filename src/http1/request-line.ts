import { METHODS, STATUS_CODES } from 'node:http'
import { endOfToken } from './characters.ts'

/** Returned instead of a position: either more bytes are needed, or `node:http` must read this head. */
export const INCOMPLETE = -1
export const OTHER = -2

/** Methods that Node's parser accepts. It refuses requests with any other method, such as `get`. */
export const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS)

/** Returns the usual reason phrase of a status, as Node writes it. */
export function reasonPhrase(status: number): string {
  return STATUS_CODES[status] ?? 'unknown'
}

/** Items by length, which tells nearly all of them apart. The list ends at the longest item. */
export type ByLength<Item> = readonly (readonly Item[] | undefined)[]

/** Methods of plain requests: all except CONNECT, whose target is not a path. The usual ones come first. */
export const PLAIN_METHODS: ByLength<Uint8Array> = byLength(
  [...new Set(['GET', 'POST', 'HEAD', ...METHODS])].filter((method) => method !== 'CONNECT').map(bytesOf),
  ({ length }) => length,
)

const SPACE = 0x20
const LONGEST_METHOD = PLAIN_METHODS.length - 1
const VERSION = bytesOf(' HTTP/1.1\r\n')

/** Returns where the method that begins at `at` ends, before a space; INCOMPLETE; or OTHER if it is not the method of a plain request. */
export function endOfMethod(bytes: Uint8Array, at: number, limit: number): number {
  const end = endOfToken(bytes, at, Math.min(limit, at + LONGEST_METHOD + 1))
  if (end === limit) return isMethodBegun(bytes, at, limit) ? INCOMPLETE : OTHER
  return bytes[end] === SPACE && includes(PLAIN_METHODS, bytes, at, end) ? end : OTHER
}

/** Returns where the line ends if only the version follows its target, otherwise INCOMPLETE or OTHER. */
export function endOfVersion(bytes: Uint8Array, at: number, limit: number): number {
  const end = endOfSame(bytes, at, VERSION, limit)
  if (end === at + VERSION.length) return end
  return end === limit ? INCOMPLETE : OTHER
}

/** Returns where the bytes that begin at `at` cease to be the same as `same`, at most `limit`. */
export function endOfSame(bytes: Uint8Array, at: number, same: Uint8Array, limit: number): number {
  const length = Math.min(same.length, limit - at)
  let i = 0
  while (i < length && bytes[at + i] === same[i]) i++
  return at + i
}

/** Whether the bytes from `at` to `end` are one of these texts. */
export function includes(texts: ByLength<Uint8Array>, bytes: Uint8Array, at: number, end: number): boolean {
  const candidates = texts[end - at]
  if (candidates === undefined) return false
  for (let i = 0; i < candidates.length; i++) if (endOfSame(bytes, at, candidates[i]!, end) === end) return true
  return false
}

export function byLength<Item>(items: readonly Item[], lengthOf: (item: Item) => number): ByLength<Item> {
  const lists: Item[][] = []
  for (const item of items) {
    lists[lengthOf(item)] ??= []
    lists[lengthOf(item)]!.push(item)
  }
  return Array.from(lists)
}

/** Encodes a latin1 string, one byte for each character. */
export function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text, (char) => char.charCodeAt(0))
}

/** `node:http` objects to a method as soon as it cannot become one that it knows. */
function isMethodBegun(bytes: Uint8Array, at: number, end: number): boolean {
  return PLAIN_METHODS.some((methods) => methods?.some((method) => method.length >= end - at && endOfSame(bytes, at, method, end) === end))
}
