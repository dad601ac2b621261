import type { AdminRouteParts } from '../admin/admin-routes.ts'
import type { EventStreams } from '../admin/endpoints/event-streams.ts'
import type { ServerConfig } from '../config/config.ts'
import type { ControlLink } from '../control/control-link.ts'
import type { SilentBackend } from '../control/silent-requests.ts'
import type { NoteDecided } from '../decide/question.ts'
import type { Engine } from '../engine/engine.ts'
import type { ConnectionParts } from '../listen/port-options.ts'
import type { BackendHealth } from '../proxy/backends/backend-health.ts'
import type { BackendSlots } from '../proxy/backends/backend-slots.ts'
import type { BodyMemory } from '../proxy/body/body-memory.ts'
import type { NoteUsage } from '../proxy/llm/settlement.ts'
import type { ReservationsParts } from '../reservations/reservations.ts'
import type { SecretValues } from '../secrets/header-template.ts'
import type { Logouts } from '../sessions/session-cookies.ts'
import type { WrongSecrets } from '../sessions/wrong-secrets.ts'
import type { Tracing } from '../telemetry/tracing/tracing.ts'

export type ServerOptions = ServerConfig & { readonly hasFastWire?: boolean }

/** The parts that a worker's servers are built from. */
export interface ServerParts
  extends ConnectionParts,
    Pick<AdminRouteParts, 'bundle' | 'storeStats' | 'hasSharedStore' | 'lacksIssuedKeys' | 'wrongSecrets'> {
  readonly engine: Engine
  /** Wrong admin tokens, counted apart from wrong secrets of debug sessions. */
  readonly wrongTokens: WrongSecrets
  readonly logouts: Logouts
  /** Logouts from operators' sessions; `logouts` has those from debug sessions. */
  readonly adminLogouts: Logouts
  readonly bodyMemory: BodyMemory
  readonly backendSlots: BackendSlots
  readonly backendHealth: BackendHealth
  readonly secrets: SecretValues
  readonly reservations: Pick<ReservationsParts, 'memory' | 'worker' | 'callerDigest' | 'sharedMarks'>
  readonly control: ControlLink
  /** Undefined if EDGE_DECISION_LOG is not set. */
  readonly noteDecided?: NoteDecided | undefined
  /** Undefined if EDGE_USAGE_DIR is not set. */
  readonly noteUsage?: NoteUsage | undefined
  /** Undefined if nobody can watch events. */
  readonly eventStreams?: EventStreams | undefined
  /** Undefined if tracing is off. */
  readonly tracing?: Tracing | undefined
  /** Registers a callback for each time that a plan becomes active. */
  readonly onPlanActive: (listener: () => void) => void
  /** Registers what ends streams when an override wants that. */
  readonly onStreamCut: (cutter: StreamCutter) => void
}

export interface StreamCutter {
  /** The backends to which requests have been silent for too long. */
  silentRequests(): SilentBackend[]
  /** Called when an override becomes known that ends streams, with the moment at which it comes into force. */
  cutBlockedStreamsAt(atMs: number): void
  /** Ends the streams that blocks in force cover. Resolves when all have been looked at. */
  cutBlockedStreams(): Promise<void>
  /** Ends the requests of these callers, whose keys were revoked, and returns how many. */
  endCallers(ids: ReadonlySet<string>): Promise<number>
}
