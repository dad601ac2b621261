import { endOfTarget, endOfToken } from '../../http/characters.ts'
import { type ByLength, KNOWN_METHODS, WIRE_SHAPES, type WireShape } from './wire-shape.ts'

/** What reading returns in place of where something ends: more is to come, or it is for `node:http` to judge. */
export const INCOMPLETE = -1
export const OTHER = -2

const SPACE = 0x20
const SLASH = 0x2f
const QUESTION_MARK = 0x3f
const VERSION = Uint8Array.from(' HTTP/1.1\r\n', (char) => char.charCodeAt(0))
const LONGEST_METHOD = KNOWN_METHODS.length - 1

/** Reads the request lines of questions, and keeps what the last one says. */
export class StartLine {
  wireShape: WireShape = WIRE_SHAPES[0]!
  // Where its parts are, for shapes that read the original request from it.
  methodEnd = 0
  /** What follows the shape's path in the target. */
  restAt = 0
  restEnd = 0

  /** Returns where the line that begins at `from` ends, INCOMPLETE or OTHER. */
  read(bytes: Uint8Array, from: number, limit: number): number {
    for (let i = 0; i < WIRE_SHAPES.length; i++) {
      const { usualLine } = WIRE_SHAPES[i]!
      if (usualLine === undefined || endOfSame(bytes, from, usualLine, limit) < from + usualLine.length) continue
      this.wireShape = WIRE_SHAPES[i]!
      return from + usualLine.length
    }
    return this.#readAny(bytes, from, limit)
  }

  #readAny(bytes: Uint8Array, from: number, limit: number): number {
    const methodEnd = endOfToken(bytes, from, Math.min(limit, from + LONGEST_METHOD + 1))
    if (methodEnd === limit) return isMethodBegun(bytes, from, limit) ? INCOMPLETE : OTHER
    if (bytes[methodEnd] !== SPACE || !includes(KNOWN_METHODS, bytes, from, methodEnd)) return OTHER
    const targetAt = methodEnd + 1
    for (let i = 0; i < WIRE_SHAPES.length; i++) {
      const wireShape = WIRE_SHAPES[i]!
      const { path, methods, shape } = wireShape
      const pathEnd = endOfSame(bytes, targetAt, path, limit)
      if (pathEnd === limit) return INCOMPLETE
      if (pathEnd < targetAt + path.length) continue
      if (methods !== KNOWN_METHODS && !includes(methods, bytes, from, methodEnd)) return OTHER
      const next = bytes[pathEnd]
      const hasRest = next === QUESTION_MARK || (next === SLASH && shape.uri === undefined)
      const restEnd = hasRest ? endOfTarget(bytes, pathEnd, limit) : pathEnd
      const end = endOfSame(bytes, restEnd, VERSION, limit)
      if (end < restEnd + VERSION.length) return end === limit ? INCOMPLETE : OTHER
      this.wireShape = wireShape
      this.methodEnd = methodEnd
      this.restAt = pathEnd
      this.restEnd = restEnd
      return end
    }
    return OTHER
  }
}

/** Where the bytes that begin at `at` cease to be the same as these, `limit` at the latest. */
function endOfSame(bytes: Uint8Array, at: number, same: Uint8Array, limit: number): number {
  const length = Math.min(same.length, limit - at)
  let i = 0
  while (i < length && bytes[at + i] === same[i]) i++
  return at + i
}

function includes(methods: ByLength<Uint8Array>, bytes: Uint8Array, at: number, end: number): boolean {
  const candidates = methods[end - at]
  if (candidates === undefined) return false
  for (let i = 0; i < candidates.length; i++) if (endOfSame(bytes, at, candidates[i]!, end) === end) return true
  return false
}

/** `node:http` objects to a method as soon as it cannot be one that it knows. */
function isMethodBegun(bytes: Uint8Array, at: number, end: number): boolean {
  return KNOWN_METHODS.some((methods) => methods?.some((method) => method.length >= end - at && endOfSame(bytes, at, method, end) === end))
}
