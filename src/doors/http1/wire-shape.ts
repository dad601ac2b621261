import { QUESTION_SHAPES, type QuestionShape } from '../question-shapes.ts'

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
}

/** A question's shape as the fast wire compares it with the bytes that come. */
export interface WireShape {
  readonly shape: QuestionShape
  readonly startLine: Uint8Array
  /** By the length of the name, which tells nearly all names apart. Longer names mean nothing. */
  readonly knownFields: readonly (readonly KnownField[] | undefined)[]
}

const FIELDS: readonly (readonly [name: string, meaning: number])[] = [
  ['host', OWN_HOST],
  ['connection', CONNECTION],
  ['content-length', CONTENT_LENGTH],
  ...['te', 'expect', 'upgrade', 'trailer', 'proxy-connection', 'transfer-encoding'].map((name) => [name, NOT_PLAIN] as const),
]

/** A start line each. */
export const WIRE_SHAPES: readonly WireShape[] = QUESTION_SHAPES.flatMap((shape) =>
  shape.methods.map((method) => ({
    shape,
    startLine: bytesOf(`${method} ${shape.path} HTTP/1.1\r\n`),
    knownFields: knownFields(shape),
  })),
)

function knownFields({ method, uri, host }: QuestionShape): readonly (readonly KnownField[] | undefined)[] {
  const byLength: KnownField[][] = []
  const originals = [[method.name, ORIGINAL_METHOD] as const, [uri.name, ORIGINAL_URI] as const, [host.name, ORIGINAL_HOST] as const]
  for (const [name, meaning] of [...originals, ...FIELDS]) {
    byLength[name.length] ??= []
    byLength[name.length]!.push({ name: bytesOf(name), meaning })
  }
  return Array.from(byLength)
}

/** A byte for each character. */
function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text, (char) => char.charCodeAt(0))
}
