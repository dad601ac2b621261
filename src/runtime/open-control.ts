import { overrideJson } from '../admin/endpoints/override-json.ts'
import { keyCalls } from '../callers/keys/key-calls.ts'
import { activityCalls } from '../control/activity/activity-control.ts'
import { bundleCalls } from '../control/bundle-reports.ts'
import type { ControlHandlers, FleetNews } from '../control/control-calls.ts'
import { eventCalls } from '../control/events/event-hub.ts'
import type { FleetControl } from '../control/fleet-control.ts'
import { answerTop, instanceStatus } from '../control/instance-status.ts'
import { FileOverrideStorage } from '../control/overrides/file-override-storage.ts'
import { OverrideControl, overrideCalls } from '../control/overrides/override-control.ts'
import type { StateKeeper } from '../control/state-keeper.ts'
import type { OverrideStorage } from '../overrides/override-map.ts'
import { issuedWatch } from '../reservations/reservation-numbers.ts'
import { RevokedSessions } from '../sessions/revoked-sessions.ts'
import type { OpenReturnsParts } from '../store/redis/open-returns.ts'
import type { OpenKeys } from './open-keys.ts'
import type { OpenReports } from './open-reports.ts'
import type { OpenSources } from './open-sources.ts'
import type { OpenState } from './open-state.ts'
import type { SharedLogoutsParts } from './shared-logouts.ts'
import { ownerNumber, type SharedMemory, SUPERVISOR } from './shared-memory.ts'
import type { StartContext } from './start-context.ts'
import type { Supervisor } from './threads/supervisor.ts'
import type { WorkerSlots } from './threads/worker-host.ts'

/** The parts of the control that operators use while the service runs. */
export interface OpenControl {
  readonly overrides: OverrideControl
  /** Undefined without Redis. */
  readonly fleet: FleetControl | undefined
  /** Resolves when the overrides from before the start have been sent to the workers. */
  readonly started: Promise<void>
}

export interface ControlParts {
  readonly overrides: OverrideControl
  readonly state: OpenState
  readonly slots: WorkerSlots
  readonly supervisor: Supervisor
  readonly stateKeeper: StateKeeper | undefined
}

/** Creates the owner of the overrides, before there are workers to announce them to. It is empty until `openControl` loads the overrides. */
export function newOverrides({ clock, logger }: StartContext, slots: WorkerSlots, { events }: OpenReports): OverrideControl {
  return new OverrideControl({
    clock,
    logger,
    announce: (change) => slots.sendAll({ type: 'overrides', change }),
    known: () => slots.ask('know_overrides', undefined),
    streamsCut: () => slots.ask('cut_streams', undefined),
    note: (note) => events?.history?.changes.noteOverride(note),
  })
}

/** Starts to load the overrides without waiting for them: Redis may be unreachable, and the admin listener opens without it. */
export async function openControl(context: StartContext, parts: ControlParts): Promise<OpenControl> {
  const { overrides } = parts
  const fleet = await openFleet(context, parts)
  const started = overrides.start(fleet ?? newFileStorage(context, parts))
  return { overrides, fleet, started }
}

async function openFleet(context: StartContext, { overrides, supervisor, state, slots }: ControlParts): Promise<FleetControl | undefined> {
  const { config, clock, logger, redisDeadlines: deadlines } = context
  const { memory } = state
  if (config.redis === undefined) return undefined
  const [{ openFleetControl }, { OpenReturns }, { counterScripts }] = await Promise.all([
    import('../control/fleet-control.ts'),
    import('../store/redis/open-returns.ts'),
    import('../store/redis/scripts.ts'),
  ])
  /** Waits until the overrides have been announced: this news makes a worker claim that it knows them, so it must have them first. */
  const announceFleet = async (news: FleetNews, all: FleetNews): Promise<void> => {
    await overrides.allAnnounced()
    supervisor.announceFleet(news, all)
  }
  const announce = (news: FleetNews, all: FleetNews): void => void announceFleet(news, all)
  const hasReservations = issuedWatch(memory.reservations)
  const onSilence = (): void => slots.sendAll({ type: 'probe_redis' })
  const fleet = openFleetControl(config.redis, {
    config,
    map: overrides.map,
    clock,
    logger,
    deadlines,
    hasReservations,
    announce,
    onSilence,
  })
  await followLogouts(context, memory, fleet)
  const onReturned: OpenReturnsParts['onReturned'] = (instance, returned) =>
    logger.warn(
      { event: 'open_reservations_returned', instance, ...returned },
      'an instance or a worker ended in the middle of requests: what they had reserved in Redis was given back, except for what they had been sent',
    )
  const returns = new OpenReturns({ link: fleet.link, scripts: counterScripts(), prefix: config.redisPrefix, clock, onReturned })
  fleet.follow(() => returns.look())
  return fleet
}

/** Logouts at other instances are read into memory of all threads. */
async function followLogouts({ config, clock, logger }: StartContext, memory: SharedMemory, fleet: FleetControl): Promise<void> {
  const { ADMIN_LOGOUTS, DEBUG_LOGOUTS, SharedLogouts } = await import('./shared-logouts.ts')
  const { debugSessionSecret, adminToken, redisPrefix: prefix } = config
  const parts = { link: fleet.link, prefix, wallMs: () => clock.wallMs(), logger }
  const follow = (kind: SharedLogoutsParts['kind'], buffer: SharedArrayBuffer): void => {
    const logouts = new SharedLogouts({ kind, ...parts, own: new RevokedSessions(buffer, ownerNumber(SUPERVISOR)) })
    fleet.follow(() => logouts.fetch())
  }
  if (debugSessionSecret !== undefined) follow(DEBUG_LOGOUTS, memory.revokedSessions)
  if (adminToken !== undefined) follow(ADMIN_LOGOUTS, memory.revokedAdminSessions)
}

function newFileStorage({ clock, logger }: StartContext, parts: ControlParts): OverrideStorage {
  const { overrides, state, slots, stateKeeper: keeper } = parts
  const kept = keeper && { saved: state.savedOverrides, file: state.kept!.file, keeper }
  const askThreads = (): Promise<unknown> => slots.ask('know_overrides', undefined)
  return new FileOverrideStorage({ map: overrides.map, clock, logger, kept, askThreads })
}

export interface ControlCallsParts {
  readonly slots: WorkerSlots
  readonly supervisor: Supervisor
  readonly reports: OpenReports
  readonly stateKeeper: StateKeeper | undefined
  readonly control: OpenControl
  readonly keys: OpenKeys
  readonly sources: OpenSources
}

/** Handlers of the calls that workers make to the main thread on behalf of operators. */
export function controlCalls({ config, clock }: StartContext, parts: ControlCallsParts): ControlHandlers {
  const { slots, supervisor, reports, stateKeeper, control, keys, sources } = parts
  const { workers } = config
  const { problems, events, sinceMs: startedMs } = reports
  const { overrides } = control
  const { intake } = sources
  return {
    status: async () =>
      instanceStatus({
        clock,
        startedMs,
        workers: { configured: workers, alive: supervisor.livingCount },
        bundle: intake.active,
        stateFile: stateKeeper,
        keySets: sources.keySets(),
        shadowAll: overrides.shadowAll && overrideJson(overrides.shadowAll, undefined),
        problems,
        refusal: sources.bundle?.status.refusal,
        silent: config.mode === 'reverse_proxy' ? (await slots.ask('silent_requests', undefined)).flat() : [],
        silentMs: config.silentMs,
      }),
    ...bundleCalls({
      intake,
      source: () => sources.bundle?.status,
      isSignatureRequired: config.configPublicKeys.length > 0,
      history: sources.history,
    }),
    save_state: async () => ({ isSaved: (await stateKeeper?.saveNow()) ?? false }),
    top: (ask) =>
      answerTop(ask, {
        clock,
        startedMs,
        workers,
        askWorkers: (filter) => slots.ask('top', filter),
        lastDeathMs: () => supervisor.lastDeathMs,
      }),
    ...eventCalls(events, clock, () => slots.ask('flush_events', undefined)),
    ...activityCalls(reports.activity),
    ...overrideCalls(overrides),
    ...keyCalls(keys.control, () => clock.wallMs()),
    note_resets: (resets) => control.fleet?.noteResets(resets),
  }
}
