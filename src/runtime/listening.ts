import type { ServerConfig } from '../config/config.ts'
import { isUnixSocket, type ListenAddress, type ListenerName, listener, openListeners } from '../listen/listeners.ts'
import type { OpenControl } from './open-control.ts'
import type { OpenSources } from './open-sources.ts'
import type { StartContext } from './start-context.ts'
import type { BoundListeners } from './threads/shared-listeners.ts'
import type { Supervisor } from './threads/supervisor.ts'
import type { SharedSocket, WorkerHost } from './threads/worker-host.ts'

/** How long request listeners stay closed for a bundle from a slow URL if no other listener shows that the process is alive. */
const FIRST_BUNDLE_UNSEEN_MS = 1000
/** A wait for the first bundle that takes longer than this is logged. */
const LOG_WAIT_MS = 3000

/** A start that was interrupted before its ports were open; everything is closed by the time `startService` throws this. The message is the reason. */
export class StartInterrupted extends Error {}

/** Binds all listeners or none; an error has the name of the listener that failed. Connections are not accepted yet. */
export async function bindListeners(config: ServerConfig, host: WorkerHost): Promise<BoundListeners> {
  const sockets = new Map<ListenerName, SharedSocket>()
  for (const name of openListeners(config)) {
    try {
      sockets.set(name, await host.bind(listener(name).address(config)!, config.workers))
    } catch (error) {
      closeSockets(sockets)
      throw Object.assign(error as Error, { listener: name })
    }
  }
  return sockets
}

export function closeSockets(sockets: BoundListeners): void {
  for (const socket of sockets.values()) socket.close()
}

export interface ListeningParts {
  readonly supervisor: Supervisor
  readonly control: OpenControl
  readonly keysStarted: Promise<void>
  readonly sources: OpenSources
}

/**
 * Opens the listeners: those for operators first, those for requests once there is nothing more to wait for. Throws if workers die repeatedly
 * before that, and a StartInterrupted if the start is interrupted.
 */
export async function listenWhenReady(context: StartContext, parts: ListeningParts): Promise<Map<ListenerName, ListenAddress>> {
  const { supervisor } = parts
  const interrupted = rejectionOf(context.interrupt)
  const step: Step = (work) => Promise.race([work, supervisor.failed(), interrupted])
  await step(supervisor.up())
  const early = await step(supervisor.open('early'))
  const admin = early.get('admin')
  if (admin !== undefined && !isUnixSocket(admin)) {
    const { host, port } = admin
    context.logger.info({ event: 'admin_listening', host, port }, 'the admin port is open')
  }
  await readiness(context, parts, step, early.size > 0)
  return new Map([...early, ...(await step(supervisor.open('ready')))])
}

/** Waits for `work`, but rejects as soon as the start fails or is interrupted. */
type Step = <Result>(work: Promise<Result>) => Promise<Result>

/** Waits until the first bundle is active, or known to be missing, and the overrides and the issued keys are loaded. */
async function readiness(
  context: StartContext,
  { control, keysStarted, sources }: ListeningParts,
  step: Step,
  isSeen: boolean,
): Promise<void> {
  const { config, logger, pause, firstBundleMs } = context
  const waitMs = config.configUrl !== undefined && !isSeen ? FIRST_BUNDLE_UNSEEN_MS : firstBundleMs
  const logWait = setTimeout(() => {
    logger.info(
      { event: 'waiting_for_bundle', up_to_ms: waitMs },
      'the port stays closed until the first bundle is active or known to be missing',
    )
  }, LOG_WAIT_MS)
  try {
    await step(Promise.race([sources.firstLook, pause(waitMs)]))
    await step(control.started)
    await step(keysStarted)
    // A bundle that has arrived is waited for, however long a busy machine takes to compile it.
    await step(sources.intake.offered)
  } finally {
    clearTimeout(logWait)
  }
}

function rejectionOf(signal: AbortSignal): Promise<never> {
  const rejection = new Promise<never>((_, reject) => {
    const interrupt = (): void => reject(new StartInterrupted(String(signal.reason)))
    if (signal.aborted) interrupt()
    else signal.addEventListener('abort', interrupt, { once: true })
  })
  rejection.catch(() => {}) // it may reject after the start is over
  return rejection
}
