import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HeaderList } from '../../http1/header-fields.ts'
import type { BackendJson, BackendsJson } from './backend-types.ts'
import type { CallersJson, KnownCallers, TopJson } from './caller-types.ts'
import type { Status, UsageJson } from './instance-types.ts'
import type { KeyJson, NewKey, RevokedKey } from './key-types.ts'
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
  /** Whether the token is for reading alone. */
  readonly isReadOnly: boolean
  /** The HTTP request, for details that only one route reads. Its body has already been read. */
  readonly http: IncomingMessage
}

type ResponseJson =
  | Status
  | UsageJson
  | BackendJson
  | BackendsJson
  | CallersJson
  | CountersJson
  | OverrideJson
  | OverridePreviewJson
  | TopJson
  | SessionJson
  | NewSession
  | KeyJson
  | KnownCallers
  | NewKey
  | RevokedKey

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
  /** Whether the route changes nothing although its method is not GET, so that a token for reading is enough. */
  readonly isForReaders?: true
  /** Throws or rejects with an ApiError if the request cannot be fulfilled. */
  handle(request: ApiRequest): ApiResponse | Promise<ApiResponse>
}
