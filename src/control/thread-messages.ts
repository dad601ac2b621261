import type { SharedBundle } from '../bundle/shared-bundle.ts'
import type { IpFile } from '../ip-data/ip-databases.ts'
import type { ListenAddress, ListenerName, ListenTarget } from '../listen/listeners.ts'
import type { OverridesChange } from '../overrides/override.ts'
import type { BundleInfo } from '../policy/plan.ts'
import type { PublishedEvent } from '../telemetry/events/published-events.ts'
import type { CallResult, ControlCallName, FleetNews, WorkerCallName } from './control-calls.ts'

/** What the supervisor sends to a worker. */
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
  /** The bundle that was prepared last is active in all workers. */
  | { readonly type: 'plan_active' }
  /** The worker replies 'up' at once, and 'ready' when everything sent before is done. */
  | { readonly type: 'get_ready' }
  | { readonly type: 'listen'; readonly listener: ListenerName; readonly target: ListenTarget }
  /** Of the overrides that are in force, or will be. */
  | { readonly type: 'overrides'; readonly change: OverridesChange }
  /** What other instances of the fleet have changed. */
  | { readonly type: 'fleet'; readonly news: FleetNews }
  | { readonly type: 'control_answer'; readonly call: number; readonly result: CallResult }
  | { readonly type: 'worker_call'; readonly call: number; readonly name: WorkerCallName; readonly ask: unknown }
  /** For those who watch events here. The worker replies 'events_taken'. */
  | EventsMessage
  | { readonly type: 'events_taken' }
  | { readonly type: 'decision_lines_taken' }
  | { readonly type: 'drain' }
  | { readonly type: 'close' }

/** What a worker sends to the supervisor. */
export type FromWorker =
  | { readonly type: 'prepared'; readonly generation: number; readonly problem: string | undefined }
  | { readonly type: 'up' }
  | { readonly type: 'ready' }
  | { readonly type: 'listening'; readonly listener: ListenerName; readonly address: ListenAddress }
  | { readonly type: 'cannot_listen'; readonly listener: ListenerName; readonly error: ListenError }
  /** For an operator, see `control/control-calls`. */
  | { readonly type: 'control_call'; readonly call: number; readonly name: ControlCallName; readonly ask: unknown }
  | { readonly type: 'worker_answer'; readonly call: number; readonly result: CallResult }
  /** What happened here. The supervisor replies 'events_taken'. */
  | EventsMessage
  | { readonly type: 'events_taken' }
  /** For EDGE_DECISION_LOG; `dropped` more did not fit. The supervisor replies 'decision_lines_taken'. */
  | { readonly type: 'decision_lines'; readonly lines: string; readonly dropped: number }
  | { readonly type: 'closed' }

interface EventsMessage {
  readonly type: 'events'
  readonly events: readonly PublishedEvent[]
}

/** As much of an error as gets from one thread to another. */
export interface ListenError {
  readonly message: string
  readonly code: string | undefined
  readonly syscall: string | undefined
}
