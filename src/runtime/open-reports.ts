import { ActivityControl } from '../control/activity/activity-control.ts'
import { type EventHub, openEventHub } from '../control/events/event-hub.ts'
import { Problems } from '../control/problems.ts'
import { ConnectionShares } from '../listen/connection-slots.ts'
import { DecisionLogFile } from './decision-log/decision-log-file.ts'
import type { OpenState } from './open-state.ts'
import { SUPERVISOR } from './shared-memory.ts'
import type { StartContext } from './start-context.ts'
import type { WorkerSlots } from './threads/worker-host.ts'
import { UsageFiles } from './usage-log/usage-files.ts'

/** The main thread's collectors of what the threads report. */
export interface OpenReports {
  readonly problems: Problems
  /** Undefined if there is no admin token, and so nobody to ask for it. */
  readonly activity: ActivityControl | undefined
  /** Undefined if nobody can watch events. */
  readonly events: EventHub | undefined
  /** Undefined if EDGE_DECISION_LOG is not set. */
  readonly decisionLog: DecisionLogFile | undefined
  /** Undefined if EDGE_USAGE_DIR is not set. */
  readonly usageFiles: UsageFiles | undefined
  /** When the instance started to collect, on the monotonic clock. */
  readonly sinceMs: number
  /** Closes everything here after a failed start. */
  abandon(): Promise<void>
}

/** Runs before anything else is opened. Throws a DecisionLogFault or a UsageLogFault if the logs cannot be written. */
export async function checkReports({ config, diskTimeoutMs }: StartContext): Promise<void> {
  if (config.decisionLog !== undefined) await DecisionLogFile.check(config.decisionLog, diskTimeoutMs)
  if (config.usageDir !== undefined) await UsageFiles.check(config.usageDir, diskTimeoutMs)
}

/** Opens the collectors; the main thread's own events are published from now on. Workers learn through `slots` that their batches were taken. */
export async function openReports(context: StartContext, state: OpenState, slots: WorkerSlots): Promise<OpenReports> {
  const { config, logger, clock, tap } = context
  const { memory, metrics } = state
  const sinceMs = clock.nowMs()
  const problems = new Problems()
  const activity = config.adminToken === undefined ? undefined : newActivity(context, state)
  const send: WorkerSlots['send'] = (worker, message) => slots.send(worker, message)
  const events = await openEventHub(config, { eventWatch: memory.eventWatch, problems, metrics, logger, clock, send })
  tap?.listen((event) => events?.publish(event))
  const decisionLog = config.decisionLog === undefined ? undefined : newDecisionLog(config.decisionLog, context, state, slots)
  const usageFiles = config.usageDir === undefined ? undefined : newUsageFiles(config.usageDir, context, state, slots)
  const abandon = async (): Promise<void> => {
    activity?.stop()
    await decisionLog?.close()
    await usageFiles?.close()
    await events?.close()
  }
  return { problems, activity, events, decisionLog, usageFiles, sinceMs, abandon }
}

function newActivity({ config, clock, logger }: StartContext, { memory, metrics, table }: OpenState): ActivityControl {
  return new ActivityControl({
    memory: metrics,
    shares: new ConnectionShares(memory.connections, SUPERVISOR),
    table,
    isProxy: config.mode === 'reverse_proxy',
    isFleet: config.redis !== undefined,
    clock,
    logger,
  })
}

function newDecisionLog(path: string, context: StartContext, { metrics }: OpenState, slots: WorkerSlots): DecisionLogFile {
  const { logger, clock, diskTimeoutMs } = context
  const onTaken = (worker: number): void => slots.send(worker, { type: 'decision_lines_taken' })
  return new DecisionLogFile({ path, metrics, logger, nowMs: () => clock.nowMs(), diskTimeoutMs, onTaken })
}

function newUsageFiles(directory: string, context: StartContext, { metrics }: OpenState, slots: WorkerSlots): UsageFiles {
  const { config, logger, clock, diskTimeoutMs } = context
  const onTaken = (worker: number): void => slots.send(worker, { type: 'usage_lines_taken' })
  return new UsageFiles({ directory, keepDays: config.usageKeepDays, metrics, logger, clock, diskTimeoutMs, onTaken })
}
