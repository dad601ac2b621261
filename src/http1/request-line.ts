import { METHODS } from 'node:http'
import { endOfToken } from './characters.ts'

/** What reading returns instead of where something ends: more bytes are needed, or `node:http` must read this head. */
export const INCOMPLETE = -1
export const OTHER = -2

/** Those that Node's parser reads. It refuses requests with others, also `get`. */
export const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS)

/** By their length, which tells nearly all of them apart. Nothing is known of longer ones. */
export type ByLength<Item> = readonly (readonly Item[] | undefined)[]

/** The methods of plain requests: all but CONNECT, whose target is no path. The usual ones come first. */
export const PLAIN_METHODS: ByLength<Uint8Array> = byLength(
  [...new Set(['GET', 'POST', 'HEAD', ...METHODS])].filter((method) => method !== 'CONNECT').map(bytesOf),
  ({ length }) => length,
)

const SPACE = 0x20
const LONGEST_METHOD = PLAIN_METHODS.length - 1
const VERSION = bytesOf(' HTTP/1.1\r\n')

/** Returns where the method that begins at `at` ends, and a space follows; INCOMPLETE; or OTHER if it is not that of a plain request. */
export function endOfMethod(bytes: Uint8Array, at: number, limit: number): number {
  const end = endOfToken(bytes, at, Math.min(limit, at + LONGEST_METHOD + 1))
  if (end === limit) return isMethodBegun(bytes, at, limit) ? INCOMPLETE : OTHER
  return bytes[end] === SPACE && includes(PLAIN_METHODS, bytes, at, end) ? end : OTHER
}

/** Returns where the rest of the line ends that has nothing but the version behind its target, INCOMPLETE or OTHER. */
export function endOfVersion(bytes: Uint8Array, at: number, limit: number): number {
  const end = endOfSame(bytes, at, VERSION, limit)
  if (end === at + VERSION.length) return end
  return end === limit ? INCOMPLETE : OTHER
}

/** Where the bytes that begin at `at` cease to be the same as these, `limit` at the latest. */
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

/** A byte for each character. */
export function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text, (char) => char.charCodeAt(0))
}

/** `node:http` objects to a method as soon as it cannot be one that it knows. */
function isMethodBegun(bytes: Uint8Array, at: number, end: number): boolean {
  return PLAIN_METHODS.some((methods) => methods?.some((method) => method.length >= end - at && endOfSame(bytes, at, method, end) === end))
}

/** What Node's parser and its timeouts refuse, by the error's code; the rest is a 400. */
const STATUSES: ReadonlyMap<string, string> = new Map([
  ['HPE_HEADER_OVERFLOW', '431 Request Header Fields Too Large'],
  ['HPE_CHUNK_EXTENSIONS_OVERFLOW', '413 Payload Too Large'],
  ['ERR_HTTP_REQUEST_TIMEOUT', '408 Request Timeout'],
])

/** The status, with its reason phrase, for what `node:http` could not read as a request. */
export function malformedStatus({ code = '' }: NodeJS.ErrnoException): string {
  return STATUSES.get(code) ?? '400 Bad Request'
}
