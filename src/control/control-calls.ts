import { ApiError } from '../admin/api/api-error.ts'
import type { TopJson } from '../admin/api/caller-types.ts'
import type { KeyJson, NewKey } from '../admin/api/key-types.ts'
import type { ErrorCode } from '../admin/api/types.ts'
import type { InstanceActivity, SamplesAsk, TopAsk } from '../admin/endpoints/activity-endpoints.ts'
import type { RetryNote } from '../admin/endpoints/backends-endpoints.ts'
import type { AnnouncedBundle, BundleTextAsk, BundleTextRead, PastBundleText } from '../admin/endpoints/bundle-endpoints.ts'
import type { ResetNote } from '../admin/endpoints/counters-endpoints.ts'
import type { EventsAsk, EventsPage } from '../admin/endpoints/event-streams.ts'
import type { ChangesList, EventsList } from '../admin/endpoints/events-endpoints.ts'
import type { InstanceStatus } from '../admin/endpoints/instance-endpoints.ts'
import type { KeyPageAsk } from '../admin/endpoints/key-endpoints.ts'
import type { PolicyActivity } from '../admin/endpoints/policies-endpoint.ts'
import type { UsageReport, UsageRuleName } from '../admin/endpoints/usage-endpoint.ts'
import type { Author, ChangeOrder, CreateOrder, RevokeOrder } from '../callers/keys/key-control.ts'
import type { EditOrder, EndOrder, ListedOverride, OverrideOrder, PreviewedOverride } from '../overrides/override.ts'
import type { KnownChanges } from '../store/redis/control-script.ts'
import type { AnnouncedReset } from '../store/redis/fleet-resets.ts'
import type { TopReport } from '../top/top-callers.ts'
import type { TopFilter } from '../top/top-filter.ts'
import type { SilentBackend } from './silent-requests.ts'

/** Calls that a worker makes to the main thread on behalf of an operator, each with its argument and its answer. Everything must be cloneable. */
export interface ControlCalls {
  readonly activity: { readonly ask: readonly string[]; readonly answer: readonly PolicyActivity[] }
  readonly recent_samples: { readonly ask: SamplesAsk; readonly answer: InstanceActivity }
  /** Answers for these rules, and for those that used most. */
  readonly usage: { readonly ask: readonly UsageRuleName[]; readonly answer: UsageReport }
  readonly status: { readonly ask: undefined; readonly answer: InstanceStatus }
  /** The active bundle and its source as text, which is cloned quickly and spares workers the encoding. */
  readonly bundle: { readonly ask: undefined; readonly answer: string }
  /** The bundles that were active last, as text too. */
  readonly bundles: { readonly ask: undefined; readonly answer: string }
  readonly bundle_text: { readonly ask: BundleTextAsk; readonly answer: PastBundleText }
  /** What differs between two bundles, as text; without `from`, since the one before. */
  readonly bundle_changes: { readonly ask: { readonly version: string; readonly from: string | undefined }; readonly answer: string }
  /** Saves the state file now. `isSaved` is whether everything from before the call is in it; false if there is no state file. */
  readonly save_state: { readonly ask: undefined; readonly answer: { readonly isSaved: boolean } }
  /** Somebody wants to watch events at this worker; they are sent there once the call is answered. */
  readonly open_events: { readonly ask: { readonly worker: number }; readonly answer: undefined }
  readonly close_events: { readonly ask: { readonly worker: number }; readonly answer: undefined }
  /** Kept events for a reader that begins with these. Once a page is the last one, the events after it are sent to the worker as they happen. */
  readonly events_page: { readonly ask: EventsAsk; readonly answer: EventsPage }
  readonly recent_events: { readonly ask: EventsAsk & { readonly limit: number }; readonly answer: EventsList }
  readonly changes: { readonly ask: { readonly sinceMs: number | undefined; readonly limit: number }; readonly answer: ChangesList }
  /** An operator has reset counters at this worker. */
  readonly note_reset: { readonly ask: ResetNote; readonly answer: undefined }
  /** An operator has had a backend tried again. */
  readonly note_retry: { readonly ask: RetryNote; readonly answer: undefined }
  /** An operator gets the text of a bundle with its credentials. */
  readonly note_text_read: { readonly ask: BundleTextRead; readonly answer: undefined }
  readonly announce_bundle: { readonly ask: AnnouncedBundle; readonly answer: undefined }
  readonly top: { readonly ask: TopAsk; readonly answer: TopJson }
  /** Each override is JSON text, which is cloned quickly and can be parsed one at a time. */
  readonly list_overrides: { readonly ask: undefined; readonly answer: readonly string[] }
  /** Each as JSON, the latest first. */
  readonly list_ended_overrides: { readonly ask: undefined; readonly answer: readonly string[] }
  readonly find_override: { readonly ask: string; readonly answer: ListedOverride }
  /** Checks an order, and changes nothing. */
  readonly preview_override: { readonly ask: OverrideOrder | EditOrder; readonly answer: PreviewedOverride }
  readonly edit_override: { readonly ask: EditOrder; readonly answer: ListedOverride }
  readonly create_override: { readonly ask: OverrideOrder; readonly answer: ListedOverride }
  /** Resets that were made at this instance, to be announced to the rest of the fleet. */
  readonly note_resets: { readonly ask: readonly AnnouncedReset[]; readonly answer: undefined }
  readonly end_override: { readonly ask: EndOrder; readonly answer: undefined }
  /** A page of issued keys as JSON. */
  readonly list_keys: { readonly ask: KeyPageAsk; readonly answer: string }
  readonly find_key: { readonly ask: string; readonly answer: KeyJson }
  readonly create_key: { readonly ask: CreateOrder; readonly answer: NewKey }
  readonly change_key: { readonly ask: ChangeOrder; readonly answer: KeyJson }
  /** Answers how many requests of the key were ended at this instance. */
  readonly revoke_key: { readonly ask: RevokeOrder; readonly answer: number }
  readonly acknowledge_keys: { readonly ask: Author; readonly answer: undefined }
}

/** Calls that the main thread makes to all workers. */
export interface WorkerCalls {
  readonly top: { readonly ask: TopFilter; readonly answer: TopReport }
  /** The backends to which requests have been silent for too long. */
  readonly silent_requests: { readonly ask: undefined; readonly answer: readonly SilentBackend[] }
  /** Answered when all overrides that were sent before are in the worker's engine. */
  readonly know_overrides: { readonly ask: undefined; readonly answer: undefined }
  /** Answered when the worker has ended the streams that blocks in force cover. */
  readonly cut_streams: { readonly ask: undefined; readonly answer: undefined }
  /** What requests in flight would give back (`store/state/open-amounts.ts`), if they had taken all of it by this time of the monotonic clock. */
  readonly open_amounts: { readonly ask: { readonly beforeMs: number }; readonly answer: Uint8Array }
  /** Ends the requests of these keys that are under way, and answers how many. */
  readonly end_key_requests: { readonly ask: readonly string[]; readonly answer: number }
  /** Answered after the events that the worker had not sent yet. */
  readonly flush_events: { readonly ask: undefined; readonly answer: undefined }
}

export type ControlCallName = keyof ControlCalls
export type WorkerCallName = keyof WorkerCalls

/** The result of a call, in a form that can be sent between threads. */
export type CallResult =
  | { readonly ok: true; readonly answer: unknown }
  | { readonly ok: false; readonly code: ErrorCode | undefined; readonly message: string }

/** Handlers by name. Errors that they throw reach the caller; an ApiError stays one. */
export type ControlHandlers = {
  readonly [Name in ControlCallName]: (
    ask: ControlCalls[Name]['ask'],
  ) => ControlCalls[Name]['answer'] | Promise<ControlCalls[Name]['answer']>
}

export type WorkerHandlers = {
  readonly [Name in WorkerCallName]: (ask: WorkerCalls[Name]['ask']) => WorkerCalls[Name]['answer'] | Promise<WorkerCalls[Name]['answer']>
}

/** Calls a handler and turns its result or error into something that can be sent to another thread. Never rejects. */
export async function resultOf(handle: () => unknown): Promise<CallResult> {
  try {
    return { ok: true, answer: await handle() }
  } catch (error) {
    return { ok: false, code: error instanceof ApiError ? error.code : undefined, message: (error as Error).message }
  }
}

/** Returns the answer, or throws what the handler threw. */
export function resultAnswer(result: CallResult): unknown {
  if (result.ok) return result.answer
  throw result.code === undefined ? new Error(result.message) : new ApiError(result.code, result.message)
}

/** Announcement to workers about the fleet. Overrides are sent before it, in a message of their own. */
export interface FleetNews {
  /** Key of caller digests; undefined while it is unknown. */
  readonly digestKey: readonly [number, number] | undefined
  readonly changes: KnownChanges
  /** Resets that were not announced before. */
  readonly resets: readonly AnnouncedReset[]
  /** Whether this process has issued reservations, which other instances may settle. */
  readonly hasReservations: boolean
}
