import { endOfTarget } from '../../http1/characters.ts'
import { endOfMethod, endOfSame, endOfVersion, INCOMPLETE, includes, OTHER, PLAIN_METHODS } from '../../http1/request-line.ts'
import { WIRE_SHAPES, type WireShape } from './wire-shape.ts'

const SLASH = 0x2f
const QUESTION_MARK = 0x3f

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
    const methodEnd = endOfMethod(bytes, from, limit)
    if (methodEnd < 0) return methodEnd
    const targetAt = methodEnd + 1
    for (let i = 0; i < WIRE_SHAPES.length; i++) {
      const wireShape = WIRE_SHAPES[i]!
      const { path, methods, shape } = wireShape
      const pathEnd = endOfSame(bytes, targetAt, path, limit)
      if (pathEnd === limit) return INCOMPLETE
      if (pathEnd < targetAt + path.length) continue
      if (methods !== PLAIN_METHODS && !includes(methods, bytes, from, methodEnd)) return OTHER
      const next = bytes[pathEnd]
      const hasRest = next === QUESTION_MARK || (next === SLASH && shape.uri === undefined)
      const restEnd = hasRest ? endOfTarget(bytes, pathEnd, limit) : pathEnd
      const end = endOfVersion(bytes, restEnd, limit)
      if (end < 0) return end
      this.wireShape = wireShape
      this.methodEnd = methodEnd
      this.restAt = pathEnd
      this.restEnd = restEnd
      return end
    }
    return OTHER
  }
}
