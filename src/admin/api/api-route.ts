import type { ServerResponse } from 'node:http'

/** What an operator asks, read and authenticated. */
export interface ApiRequest {
  /** What follows the route's path, where that ends in `/`; else empty. */
  readonly rest: string
  readonly query: URLSearchParams
  /** The members of the JSON body; empty where the method has none. */
  readonly body: Readonly<Record<string, unknown>>
  /** Who asks: `X-Edge-Actor`, or `unknown`. */
  readonly actor: string
}

/** What is responded: JSON, nothing but a status, or a stream that its route writes. */
export type ApiResponse =
  | { readonly status: number; readonly json: unknown }
  | { readonly status: 204 }
  | { readonly stream: (res: ServerResponse) => void }

/** One method of one path below `/admin/v1/`. */
export interface ApiRoute {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Such as `status`. One that ends in `/` stands for everything below it. */
  readonly path: string
  /** Throws, or rejects with, an ApiError where it cannot be done. */
  handle(request: ApiRequest): ApiResponse | Promise<ApiResponse>
}
