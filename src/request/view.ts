import { encodePathText } from '../text/path.ts'

/** Stands for the value of a repeated field: other readers may take any of its lines. */
export const REPEATED = Symbol('repeated')

export type FieldValue = string | undefined | typeof REPEATED

/** Fields whose lines are joined, with their separators (RFC 9110 5.3, RFC 9113 8.2.3). */
const SEPARATORS: ReadonlyMap<string, string> = new Map([
  ['x-forwarded-for', ', '],
  ['cookie', '; '],
])

/** Returns the value of a field after one more line. `name` is in lower case. */
export function withNextLine(name: string, earlier: string, line: string): string | typeof REPEATED {
  const separator = SEPARATORS.get(name)
  return separator === undefined ? REPEATED : `${earlier}${separator}${line}`
}

/** Everything that the engine sees of a request, whatever protocol it arrived by. */
export interface RequestView {
  readonly method: string
  /** The target as received: path and query, or an absolute URI. */
  readonly uri: string
  /** Empty if the request names no host. */
  readonly host: string
  /** Returns a field's value by its lower-case name. Only the lines of X-Forwarded-For and Cookie are joined. */
  header(name: string): FieldValue
  /** The address that connected to the gateway, which is the last hop after those in X-Forwarded-For; undefined if the door does not know it. */
  readonly peer?: string | undefined
  /** Whether the request opens a WebSocket; undefined if the door forwards nothing. */
  readonly opensSocket?: boolean
  /** Returns a text that the gateway sends along from its configuration, by its name. */
  context?(name: string): FieldValue
}

/** A request as a plain object. */
export interface PlainRequest {
  readonly method: string
  readonly uri: string
  readonly host?: string | undefined
  /** Names may be in any case. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>> | undefined
  /** The address that the request's connection comes from, such as `req.socket.remoteAddress`. Without it the client's address is unknown. */
  readonly peer?: string | undefined
}

export class PlainRequestView implements RequestView {
  readonly method: string
  readonly uri: string
  readonly host: string
  readonly #headers = new Map<string, FieldValue>()

  constructor(request: PlainRequest) {
    this.method = request.method
    this.uri = encodePathText(request.uri)
    this.host = request.host ?? ''
    for (const [name, value] of Object.entries(request.headers ?? {})) {
      if (value === undefined) continue
      for (const line of typeof value === 'string' ? [value] : value) this.#addLine(name.toLowerCase(), line)
    }
  }

  header(name: string): FieldValue {
    return this.#headers.get(name)
  }

  #addLine(name: string, line: string): void {
    const earlier = this.#headers.get(name)
    if (earlier === REPEATED) return
    this.#headers.set(name, earlier === undefined ? line : withNextLine(name, earlier, line))
  }
}
