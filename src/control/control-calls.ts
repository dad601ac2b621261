import type { InstanceActivity, TopAsk } from '../admin/api/activity-endpoints.ts'
import { ApiError } from '../admin/api/api-error.ts'
import type { InstanceStatus } from '../admin/api/instance-endpoints.ts'
import type { PolicyActivity } from '../admin/api/policies-endpoint.ts'
import type { ErrorCode, TopJson } from '../admin/api/types.ts'
import type { UsageReport, UsageRuleName } from '../admin/api/usage-endpoint.ts'
import type { EndOrder, ListedOverride, OverrideOrder } from '../overrides/override.ts'
import type { KnownChanges } from '../store/redis/control-script.ts'
import type { AnnouncedReset } from '../store/redis/fleet-resets.ts'
import type { TopFilter } from '../top/caller-ids.ts'
import type { TopReport } from '../top/top-callers.ts'

/** What a worker asks the main thread for an operator, by name: what it says, and what it gets. Everything must be cloneable. */
export interface ControlCalls {
  readonly activity: { readonly ask: readonly string[]; readonly answer: readonly PolicyActivity[] }
  /** Since the sample of this time, or all. */
  readonly recent_samples: { readonly ask: string | undefined; readonly answer: InstanceActivity }
  /** Of these rules, and of those that used most. */
  readonly usage: { readonly ask: readonly UsageRuleName[]; readonly answer: UsageReport }
  readonly status: { readonly ask: undefined; readonly answer: InstanceStatus }
  /** What `bundleJson` says, as text: that is cloned in no time, and workers need not make it. */
  readonly bundle: { readonly ask: undefined; readonly answer: string }
  /** Saves the state file now. `isSaved`: whether all that was there before the call is in it; false where there is none. */
  readonly save_state: { readonly ask: undefined; readonly answer: { readonly isSaved: boolean } }
  /** Somebody wants to watch events at this worker; from the answer on they come. */
  readonly open_events: { readonly ask: { readonly worker: number }; readonly answer: undefined }
  readonly close_events: { readonly ask: { readonly worker: number }; readonly answer: undefined }
  readonly top: { readonly ask: TopAsk; readonly answer: TopJson }
  /** Each as JSON: that is cloned in no time, and can be read one by one. */
  readonly list_overrides: { readonly ask: undefined; readonly answer: readonly string[] }
  readonly create_override: { readonly ask: OverrideOrder; readonly answer: ListedOverride }
  /** Resets that were made here, to announce to the other instances of a fleet. */
  readonly note_resets: { readonly ask: readonly AnnouncedReset[]; readonly answer: undefined }
  readonly end_override: { readonly ask: EndOrder; readonly answer: undefined }
}

/** What the main thread asks all workers. */
export interface WorkerCalls {
  readonly top: { readonly ask: TopFilter; readonly answer: TopReport }
  /** Answered when all overrides that were sent before are in the worker's engine. */
  readonly know_overrides: { readonly ask: undefined; readonly answer: undefined }
}

export type ControlCallName = keyof ControlCalls
export type WorkerCallName = keyof WorkerCalls

/** The result of a call on its way between threads. */
export type CallResult =
  | { readonly ok: true; readonly answer: unknown }
  | { readonly ok: false; readonly code: ErrorCode | undefined; readonly message: string }

/** Handlers by name. What they throw reaches the caller; an ApiError stays one. */
export type ControlHandlers = {
  readonly [Name in ControlCallName]: (
    ask: ControlCalls[Name]['ask'],
  ) => ControlCalls[Name]['answer'] | Promise<ControlCalls[Name]['answer']>
}

export type WorkerHandlers = {
  readonly [Name in WorkerCallName]: (ask: WorkerCalls[Name]['ask']) => WorkerCalls[Name]['answer'] | Promise<WorkerCalls[Name]['answer']>
}

/** Calls a handler, and turns what comes of it into something that gets to another thread. Never rejects. */
export async function resultOf(handle: () => unknown): Promise<CallResult> {
  try {
    return { ok: true, answer: await handle() }
  } catch (error) {
    return { ok: false, code: error instanceof ApiError ? error.code : undefined, message: (error as Error).message }
  }
}

/** The answer, or throws what the handler threw. */
export function resultAnswer(result: CallResult): unknown {
  if (result.ok) return result.answer
  throw result.code === undefined ? new Error(result.message) : new ApiError(result.code, result.message)
}

/** What is announced to workers about the fleet. Overrides come in a message of their own, before it. */
export interface FleetNews {
  /** What digests of credentials are made with; undefined: not known yet. */
  readonly digestKey: readonly [number, number] | undefined
  readonly changes: KnownChanges
  /** Those that were not announced before. */
  readonly resets: readonly AnnouncedReset[]
}
