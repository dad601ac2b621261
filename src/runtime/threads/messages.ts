import type { SharedBundle } from '../../bundle/shared-bundle.ts'
import type { IpFile } from '../../ip-data/ip-files.ts'
import type { ListenOn } from '../../listen/http-listener.ts'
import type { BundleInfo } from '../../policy/bundle-info.ts'

export type ListenerName = 'main' | 'admin'

/** What the supervisor tells a worker. */
export type ToWorker =
  | { readonly type: 'ip_file'; readonly file: IpFile }
  | {
      readonly type: 'prepare'
      readonly generation: number
      readonly bundle: SharedBundle
      readonly info: BundleInfo
      /** Since when each counter's limit holds. */
      readonly sincesMs: Float64Array
    }
  /** To be answered with 'up' at once, and with 'ready' when all that was told before is done. */
  | { readonly type: 'get_ready' }
  | { readonly type: 'listen'; readonly listener: ListenerName; readonly on: ListenOn }
  | { readonly type: 'drain' }
  | { readonly type: 'close' }

/** What a worker tells the supervisor. */
export type FromWorker =
  | { readonly type: 'prepared'; readonly generation: number; readonly problem: string | undefined }
  | { readonly type: 'up' }
  | { readonly type: 'ready' }
  | { readonly type: 'listening'; readonly listener: ListenerName; readonly port: number }
  | { readonly type: 'cannot_listen'; readonly listener: ListenerName; readonly error: ListenError }
  | { readonly type: 'closed' }

/** As much of an error as gets from one thread to another. */
export interface ListenError {
  readonly message: string
  readonly code: string | undefined
  readonly syscall: string | undefined
  readonly port: number | undefined
}
