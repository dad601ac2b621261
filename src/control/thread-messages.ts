import type { SharedBundle } from '../bundle/shared-bundle.ts'
import type { KeySetsChange } from '../callers/key-sets/key-set-news.ts'
import type { KeySource } from '../callers/key-sets/key-source.ts'
import type { IpFile } from '../ip-data/ip-databases.ts'
import type { ListenAddress, ListenerName, ListenTarget } from '../listen/listeners.ts'
import type { OverridesChange } from '../overrides/override.ts'
import type { BundleInfo } from '../policy/plan.ts'
import type { NamedSecrets } from '../secrets/secrets.ts'
import type { PublishedEvent } from '../telemetry/events/published-events.ts'
import type { TlsMaterial } from '../tls/tls-files.ts'
import type { HourLines } from '../usage-log/usage-line.ts'
import type { CallResult, ControlCallName, FleetNews, WorkerCallName } from './control-calls.ts'

/** Messages from the supervisor to a worker. */
export type ToWorker =
  | { readonly type: 'ip_file'; readonly file: IpFile }
  | {
      readonly type: 'prepare'
      readonly generation: number
      readonly bundle: SharedBundle
      readonly info: BundleInfo
      /** Since when each counter's limit applies, on the monotonic clock. */
      readonly sincesMs: Float64Array
    }
  /** The bundle that was prepared last is now active in all workers. */
  | { readonly type: 'plan_active' }
  /** The worker replies 'up' at once, and 'ready' when it has handled everything that was sent before. */
  | { readonly type: 'get_ready' }
  | { readonly type: 'listen'; readonly listener: ListenerName; readonly target: ListenTarget }
  /** A change of the overrides that are in force or will be. */
  | { readonly type: 'overrides'; readonly change: OverridesChange }
  /** Changes that were made anywhere in the fleet. */
  | { readonly type: 'fleet'; readonly news: FleetNews }
  /** The main thread gets no good answer from Redis, so the worker finds out whether it does. */
  | { readonly type: 'probe_redis' }
  /** Key sets that were read again, or that the active bundle no longer names. */
  | { readonly type: 'key_sets'; readonly change: KeySetsChange }
  /** Secrets that are new or have changed. */
  | { readonly type: 'secrets'; readonly secrets: NamedSecrets }
  /** Certificates and keys for new TLS connections. */
  | { readonly type: 'tls'; readonly material: TlsMaterial }
  | { readonly type: 'control_answer'; readonly call: number; readonly result: CallResult }
  | { readonly type: 'worker_call'; readonly call: number; readonly name: WorkerCallName; readonly ask: unknown }
  /** Events for those who watch at this worker. The worker replies 'events_taken'. */
  | EventsMessage
  | { readonly type: 'events_taken' }
  | { readonly type: 'decision_lines_taken' }
  | { readonly type: 'usage_lines_taken' }
  | { readonly type: 'drain' }
  | { readonly type: 'close' }

/** Messages from a worker to the supervisor. */
export type FromWorker =
  | { readonly type: 'prepared'; readonly generation: number; readonly problem: string | undefined }
  | { readonly type: 'up' }
  | { readonly type: 'ready' }
  | { readonly type: 'listening'; readonly listener: ListenerName; readonly address: ListenAddress }
  | { readonly type: 'cannot_listen'; readonly listener: ListenerName; readonly error: ListenError }
  /** A call on behalf of an operator, see `control/control-calls`. */
  | { readonly type: 'control_call'; readonly call: number; readonly name: ControlCallName; readonly ask: unknown }
  | { readonly type: 'worker_answer'; readonly call: number; readonly result: CallResult }
  /** Events of this worker. The supervisor replies 'events_taken'. */
  | EventsMessage
  | { readonly type: 'events_taken' }
  /** Lines for EDGE_DECISION_LOG; `dropped` more did not fit. The supervisor replies 'decision_lines_taken'. */
  | { readonly type: 'decision_lines'; readonly lines: string; readonly dropped: number }
  /** Lines for EDGE_USAGE_DIR by hour; `lost` more did not fit. The supervisor replies 'usage_lines_taken'. */
  | { readonly type: 'usage_lines'; readonly hours: readonly HourLines[]; readonly lost: number }
  /** A token names a key that is not in this set. The supervisor replies 'key_sets' once the set was read again, or at once if it was read recently. */
  | { readonly type: 'ask_key_set'; readonly source: KeySource }
  | { readonly type: 'closed' }

interface EventsMessage {
  readonly type: 'events'
  readonly events: readonly PublishedEvent[]
}

/** The parts of an error that can be sent between threads. */
export interface ListenError {
  readonly message: string
  readonly code: string | undefined
  readonly syscall: string | undefined
}
