import type { InstanceActivity } from '../../admin/api/activity/activity-endpoint.ts'
import type { PolicyActivity } from '../../admin/api/policies/policy-activity.ts'
import type { InstanceStatus } from '../../admin/api/status-endpoint.ts'
import type { TopAsk } from '../../admin/api/top-endpoint.ts'
import type { ErrorCode, TopJson } from '../../admin/api/types.ts'
import type { UsageReport, UsageRuleName } from '../../admin/api/usage/rule-usage.ts'
import type { EndOrder, ListedOverride, OverrideOrder } from '../../overrides/override-order.ts'
import type { AnnouncedReset } from '../../store/redis/announced-resets.ts'
import type { TopReport } from '../../top/top-callers.ts'
import type { TopFilter } from '../../top/top-filter.ts'

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
