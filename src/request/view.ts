import { encodePathText } from '../policy/path.ts'

/** All that the engine may see of a request, whichever wire it came in on. */
export interface RequestView {
  readonly method: string
  /** The target as it came: path and query, or an absolute URI. */
  readonly uri: string
  /** Empty when the request names no host. */
  readonly host: string
  /** A header's value by its lower-case name, repeated fields joined by ", ". */
  header(name: string): string | undefined
}

/** A request as a program writes it down. */
export interface PlainRequest {
  readonly method: string
  readonly uri: string
  readonly host?: string
  /** Names in any case. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>>
}

export class PlainRequestView implements RequestView {
  readonly method: string
  readonly uri: string
  readonly host: string
  readonly #headers = new Map<string, string>()

  constructor(request: PlainRequest) {
    this.method = request.method
    this.uri = encodePathText(request.uri)
    this.host = request.host ?? ''
    for (const [name, value] of Object.entries(request.headers ?? {})) {
      if (value === undefined) continue
      const text = typeof value === 'string' ? value : value.join(', ')
      const earlier = this.#headers.get(name.toLowerCase())
      this.#headers.set(name.toLowerCase(), earlier === undefined ? text : `${earlier}, ${text}`)
    }
  }

  header(name: string): string | undefined {
    return this.#headers.get(name)
  }
}
