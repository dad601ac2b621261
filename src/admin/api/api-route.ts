import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HeaderList } from '../../http1/header-fields.ts'
import { runInSlices, TimeShare } from '../../time/slices.ts'
import type { Status, UsageJson } from './instance-types.ts'
import type { CountersJson, NewSession, OverrideJson, SessionJson, TopJson } from './types.ts'

/** What an operator asks, read and authenticated. */
export interface ApiRequest {
  /** What follows the route's path, where that ends in `/`; else empty. */
  readonly rest: string
  readonly query: URLSearchParams
  /** The members of the JSON body; empty where the method has none. */
  readonly body: Readonly<Record<string, unknown>>
  /** Who asks: `X-Edge-Actor`, or `unknown`. */
  readonly actor: string
  /** For what only one route reads. Its body is read already. */
  readonly http: IncomingMessage
}

type ResponseJson = Status | UsageJson | CountersJson | OverrideJson | TopJson | SessionJson | NewSession

/** What is responded: JSON, as a value or as text, nothing but a status, or a stream that its route writes. */
export type ApiResponse =
  | { readonly status: number; readonly json: ResponseJson; readonly headers?: HeaderList }
  | { readonly status: number; readonly text: string | Buffer; readonly headers?: HeaderList }
  | { readonly status: 204; readonly headers?: HeaderList }
  | { readonly stream: (res: ServerResponse) => void }

/** One method of one path below `/admin/v1/`. */
export interface ApiRoute {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Such as `status`. One that ends in `/` stands for everything below it. */
  readonly path: string
  /** It checks for itself who asks. */
  readonly isOpen?: true
  /** Throws, or rejects with, an ApiError where it cannot be done. */
  handle(request: ApiRequest): ApiResponse | Promise<ApiResponse>
}

/** What long responses may take of a worker's time. */
const SHARE = 0.1
const BURST_MS = 20

/** Makes long texts, and finds what is in them, a slice at a time, one text after the other: a worker that decides is never held up. */
export class SlicedTexts {
  readonly #time = new TimeShare(SHARE, BURST_MS, performance.now())
  /** The first is being made. */
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

/** An object in JSON whose last member is a long list: the texts of its items are put together as bytes, which takes next to no time. */
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
