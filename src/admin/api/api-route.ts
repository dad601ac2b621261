import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HeaderList } from '../../http/header-list.ts'
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
