import type { Reason } from '../../engine/reasons.ts'
import { type ByLength, byLength, bytesOf, PLAIN_METHODS } from '../../http1/request-line.ts'
import { type OriginalField, QUESTION_SHAPES, type QuestionShape } from '../question-shapes.ts'

/** What a field means to the fast wire. */
export const OWN_HOST = 0
export const ORIGINAL_METHOD = 1
export const ORIGINAL_URI = 2
export const ORIGINAL_HOST = 3

export interface KnownField {
  /** In lower case. */
  readonly name: Uint8Array
  readonly meaning: number
  /** Undefined: `node:http` judges what comes twice. */
  readonly repeated: Reason | undefined
}

/** A question's shape as the fast wire compares it with the bytes that come. */
export interface WireShape {
  readonly shape: QuestionShape
  /** The request line says something about the request that is asked about, so each has its own. */
  readonly isInLine: boolean
  /** Else nearly all have this one, which can be compared at one go. */
  readonly usualLine: Uint8Array | undefined
  readonly path: Uint8Array
  readonly methods: ByLength<Uint8Array>
  readonly knownFields: ByLength<KnownField>
  /** The host of the request that is asked about is the question's own. */
  readonly isOwnHost: boolean
}

const HOST = 'host'

export const WIRE_SHAPES: readonly WireShape[] = QUESTION_SHAPES.map((shape) => {
  const { path, methods, method, uri, host } = shape
  const isInLine = method === undefined || uri === undefined
  return {
    shape,
    isInLine,
    usualLine: isInLine ? undefined : bytesOf(`${methods?.[0] ?? 'GET'} ${path} HTTP/1.1\r\n`),
    path: bytesOf(path),
    methods: methods === undefined ? PLAIN_METHODS : byLength(methods.map(bytesOf), ({ length }) => length),
    knownFields: byLength(knownFields(shape), ({ name }) => name.length),
    isOwnHost: host?.name === HOST,
  }
})

function knownFields({ method, uri, host }: QuestionShape): KnownField[] {
  const originals = [
    [method, ORIGINAL_METHOD],
    [uri, ORIGINAL_URI],
    [host?.name === HOST ? undefined : host, ORIGINAL_HOST],
  ] as const
  const own = { name: bytesOf(HOST), meaning: OWN_HOST, repeated: undefined }
  return [...originals.flatMap(([field, meaning]) => (field === undefined ? [] : [originalField(field, meaning)])), own]
}

function originalField({ name, repeated }: OriginalField, meaning: number): KnownField {
  return { name: bytesOf(name), meaning, repeated }
}
