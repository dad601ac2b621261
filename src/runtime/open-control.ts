import { overrideJson } from '../admin/api/overrides/override-json.ts'
import type { OverrideShelf } from '../overrides/override-shelf.ts'
import { activityCalls } from './desk/activity-desk.ts'
import { bundleJson } from './desk/bundle-json.ts'
import type { DeskHandlers } from './desk/desk-calls.ts'
import { FileShelf } from './desk/file-shelf.ts'
import type { FleetDesk } from './desk/fleet-desk.ts'
import type { FleetNews } from './desk/fleet-news.ts'
import { instanceStatus } from './desk/instance-status.ts'
import { overrideCalls } from './desk/override-calls.ts'
import { OverrideDesk } from './desk/override-desk.ts'
import { answerTop } from './desk/top-desk.ts'
import type { OpenReports } from './open-reports.ts'
import type { OpenSources } from './open-sources.ts'
import type { OpenState } from './open-state.ts'
import type { StartContext } from './start-context.ts'
import type { StateKeeper } from './state-keeper.ts'
import type { Supervisor } from './threads/supervisor.ts'

/** What operators change while the service runs. */
export interface OpenControl {
  readonly overrides: OverrideDesk
  /** Undefined without Redis. */
  readonly fleet: FleetDesk | undefined
  /** Resolves when the workers have been sent the overrides from before the start. */
  readonly started: Promise<void>
}

export interface ControlParts {
  readonly state: OpenState
  readonly supervisor: Supervisor
  readonly stateKeeper: StateKeeper | undefined
}

/** Loads the overrides, and does not wait for them: Redis may be away, and what operators look at opens without it. */
export async function openControl(context: StartContext, parts: ControlParts): Promise<OpenControl> {
  const { clock, logger } = context
  const { supervisor } = parts
  const overrides = new OverrideDesk({
    clock,
    logger,
    changeOverrides: (change) => supervisor.changeOverrides(change),
    known: () => supervisor.askWorkers('know_overrides', undefined),
  })
  const fleet = await openFleet(context, parts, overrides)
  const started = overrides.start(fleet ?? newFileShelf(context, parts, overrides))
  return { overrides, fleet, started }
}

async function openFleet(
  { config, clock, logger, redisDeadlines: deadlines }: StartContext,
  { supervisor }: ControlParts,
  overrides: OverrideDesk,
): Promise<FleetDesk | undefined> {
  if (config.redis === undefined) return undefined
  const { openFleetDesk } = await import('./desk/open-fleet-desk.ts')
  /** After the overrides: a worker that says that it knows one must have it. */
  const tellFleet = async (news: FleetNews, all: FleetNews): Promise<void> => {
    await overrides.sent()
    supervisor.tellFleet(news, all)
  }
  const tell = (news: FleetNews, all: FleetNews): void => void tellFleet(news, all)
  return openFleetDesk(config.redis, { config, book: overrides.book, clock, logger, deadlines, tell })
}

function newFileShelf({ clock, logger }: StartContext, parts: ControlParts, { book }: OverrideDesk): OverrideShelf {
  const { state, supervisor, stateKeeper: keeper } = parts
  const kept = keeper && { saved: state.savedOverrides, file: state.kept!.file, keeper }
  return new FileShelf({ book, clock, logger, kept, askThreads: () => supervisor.askWorkers('know_overrides', undefined) })
}

export interface ControlCallsParts {
  readonly supervisor: Supervisor
  readonly reports: OpenReports
  readonly stateKeeper: StateKeeper | undefined
  readonly control: OpenControl
  readonly sources: OpenSources
}

/** What the main thread answers when workers ask it on behalf of operators. */
export function controlCalls({ config, clock }: StartContext, parts: ControlCallsParts): DeskHandlers {
  const { supervisor, reports, stateKeeper, control, sources } = parts
  const { workers } = config
  const { problems, events, sinceMs: startedMs } = reports
  const { overrides } = control
  const { intake } = sources
  return {
    status: () =>
      instanceStatus({
        clock,
        startedMs,
        workers: { configured: workers, alive: supervisor.livingCount },
        bundle: intake.active,
        stateFile: stateKeeper,
        shadowAll: overrides.shadowAll && overrideJson(overrides.shadowAll, undefined),
        problems,
      }),
    bundle: () => JSON.stringify(bundleJson({ active: intake.active, lastUpdate: intake.lastUpdate, source: sources.bundle?.status })),
    save_state: async () => ({ isSaved: (await stateKeeper?.saveNow()) ?? false }),
    top: (ask) =>
      answerTop(ask, {
        clock,
        startedMs,
        workers,
        askWorkers: (filter) => supervisor.askWorkers('top', filter),
        lastDeathMs: () => supervisor.lastDeathMs,
      }),
    open_events: ({ worker }) => events!.openStream(worker),
    close_events: ({ worker }) => events!.closeStream(worker),
    ...activityCalls(reports.activity),
    ...overrideCalls(overrides),
    note_resets: (resets) => control.fleet?.noteResets(resets),
  }
}
