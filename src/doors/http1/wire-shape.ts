import { METHODS } from 'node:http'
import type { Reason } from '../../engine/reasons.ts'
import { type OriginalField, QUESTION_SHAPES, type QuestionShape } from '../question-shapes.ts'

/** What a field means to the fast wire. */
export const OWN_HOST = 0
export const CONNECTION = 1
export const CONTENT_LENGTH = 2
/** Whoever sends one wants something other than a plain response on a connection that is kept. */
export const NOT_PLAIN = 3
export const ORIGINAL_METHOD = 4
export const ORIGINAL_URI = 5
export const ORIGINAL_HOST = 6

export interface KnownField {
  /** In lower case. */
  readonly name: Uint8Array
  readonly meaning: number
  /** Undefined: `node:http` judges what comes twice. */
  readonly repeated: Reason | undefined
}

/** By their length, which tells nearly all of them apart. Nothing is known of longer ones. */
export type ByLength<Item> = readonly (readonly Item[] | undefined)[]

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

/** Those that `node:http` reads, but for CONNECT, whose target is no path. The usual ones come first. */
const ANY_METHOD = [...new Set(['GET', 'POST', 'HEAD', ...METHODS])].filter((method) => method !== 'CONNECT')

export const KNOWN_METHODS = byLength(ANY_METHOD.map(bytesOf), ({ length }) => length)

const HOST = 'host'

const FIELDS: readonly KnownField[] = [
  newField(HOST, OWN_HOST),
  newField('connection', CONNECTION),
  newField('content-length', CONTENT_LENGTH),
  ...['te', 'expect', 'upgrade', 'trailer', 'proxy-connection', 'transfer-encoding'].map((name) => newField(name, NOT_PLAIN)),
]

export const WIRE_SHAPES: readonly WireShape[] = QUESTION_SHAPES.map((shape) => {
  const { path, methods, method, uri, host } = shape
  const isInLine = method === undefined || uri === undefined
  return {
    shape,
    isInLine,
    usualLine: isInLine ? undefined : bytesOf(`${methods?.[0] ?? 'GET'} ${path} HTTP/1.1\r\n`),
    path: bytesOf(path),
    methods: methods === undefined ? KNOWN_METHODS : byLength(methods.map(bytesOf), ({ length }) => length),
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
  return [...originals.flatMap(([field, meaning]) => (field === undefined ? [] : [originalField(field, meaning)])), ...FIELDS]
}

function originalField({ name, repeated }: OriginalField, meaning: number): KnownField {
  return { name: bytesOf(name), meaning, repeated }
}

function newField(name: string, meaning: number): KnownField {
  return { name: bytesOf(name), meaning, repeated: undefined }
}

function byLength<Item>(items: readonly Item[], lengthOf: (item: Item) => number): ByLength<Item> {
  const lists: Item[][] = []
  for (const item of items) {
    lists[lengthOf(item)] ??= []
    lists[lengthOf(item)]!.push(item)
  }
  return Array.from(lists)
}

/** A byte for each character. */
function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text, (char) => char.charCodeAt(0))
}
