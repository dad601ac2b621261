import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HeaderList } from '../../http1/header-fields.ts'
import { runInSlices, TimeShare } from '../../time/slices.ts'
import type { CallersJson, TopJson } from './caller-types.ts'
import type { Status, UsageJson } from './instance-types.ts'
import type { KeyJson, NewKey } from './key-types.ts'
import type { CountersJson, NewSession, OverrideJson, OverridePreviewJson, SessionJson } from './types.ts'

/** An operator's request, parsed and authenticated. */
export interface ApiRequest {
  /** The rest of the path after the route's path, if that ends in `/`; otherwise empty. */
  readonly rest: string
  readonly query: URLSearchParams
  /** Members of the JSON body; empty if the method has none. */
  readonly body: Readonly<Record<string, unknown>>
  /** Who asks: the value of `X-Edge-Actor`, the name given at login, or `unknown`. */
  readonly actor: string
  /** The HTTP request, for details that only one route reads. Its body has already been read. */
  readonly http: IncomingMessage
}

type ResponseJson =
  | Status
  | UsageJson
  | CallersJson
  | CountersJson
  | OverrideJson
  | OverridePreviewJson
  | TopJson
  | SessionJson
  | NewSession
  | KeyJson
  | NewKey

/** A response: JSON as a value or as text, only a status, or a stream that the route writes. */
export type ApiResponse =
  | { readonly status: number; readonly json: ResponseJson; readonly headers?: HeaderList }
  | {
      readonly status: number
      readonly text: string | Buffer
      readonly headers?: HeaderList
      /** Called when the client has all of it, or is gone. */
      readonly onClosed?: () => void
    }
  | { readonly status: 204; readonly headers?: HeaderList }
  | { readonly stream: (res: ServerResponse) => void }

/** One method of one path below `/admin/v1/`. */
export interface ApiRoute {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** A path such as `status`. One that ends in `/` covers everything below it. */
  readonly path: string
  /** What follows the part that varies, where `path` ends in `/`, such as `/changes`. */
  readonly tail?: string
  /** Whether the route is open to requests without a token, so that it must check access itself. */
  readonly isOpen?: true
  /** Throws or rejects with an ApiError if the request cannot be fulfilled. */
  handle(request: ApiRequest): ApiResponse | Promise<ApiResponse>
}

/** Share of a worker's time that long responses may take. */
const SHARE = 0.1
const BURST_MS = 20

/** Builds or searches long texts one after the other, a slice at a time, so that a worker's decisions are never delayed for long. */
export class SlicedTexts {
  readonly #time = new TimeShare(SHARE, BURST_MS, performance.now())
  /** The first one is in progress. */
  readonly #waiting: SlicedText[] = []

  make<Result>(steps: Generator<void, Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ steps, resolve: resolve as (result: unknown) => void, reject })
      if (this.#waiting.length === 1) this.#begin()
    })
  }

  #begin(): void {
    const waitMs = this.#time.waitMs(performance.now())
    if (waitMs > 0) {
      setTimeout(() => this.#begin(), waitMs).unref()
      return
    }
    const { steps, resolve, reject } = this.#waiting[0]!
    const end = (): void => {
      this.#waiting.shift()
      if (this.#waiting.length > 0) this.#begin()
    }
    runInSlices({
      steps,
      onSlice: (workMs) => this.#time.spend(workMs, performance.now()),
      onDone: (text) => {
        end()
        resolve(text)
      },
      onError: (error) => {
        end()
        reject(error)
      },
    })
  }
}

interface SlicedText {
  readonly steps: Generator<void, unknown>
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

const COMMA = Buffer.from(',')

/** Returns a JSON object whose last member is a long list. The texts of its items are joined as bytes, which takes hardly any time. */
export function jsonWithList(members: object, name: string, items: readonly Buffer[]): Buffer {
  const head = JSON.stringify({ ...members, [name]: [] })
  const parts: Buffer[] = [Buffer.from(head.slice(0, -2))]
  for (const [i, item] of items.entries()) {
    if (i > 0) parts.push(COMMA)
    parts.push(item)
  }
  parts.push(Buffer.from(head.slice(-2)))
  return Buffer.concat(parts)
}
