import { ControlLink } from '../../../src/control/control-link.ts'
import { ConnectionShares, connectionSlotsOf, newSharesBuffer, newSlotsBuffer } from '../../../src/listen/connection-slots.ts'
import { BackendHealth } from '../../../src/proxy/backends/backend-health.ts'
import { BackendSlots, newBackendsBuffer } from '../../../src/proxy/backends/backend-slots.ts'
import { BodyMemory, newBodyMemoryBuffer } from '../../../src/proxy/body/body-memory.ts'
import { newReservationMemory } from '../../../src/reservations/reservation-numbers.ts'
import type { ServerParts } from '../../../src/runtime/server-parts.ts'
import { WorkerSecrets } from '../../../src/secrets/worker-secrets.ts'
import { newRevokedBuffer, RevokedSessions } from '../../../src/sessions/revoked-sessions.ts'
import { newWrongSecretsBuffer, WrongSecrets } from '../../../src/sessions/wrong-secrets.ts'
import { MetricMemory, newMetricBuffer } from '../../../src/telemetry/metrics/metric-memory.ts'
import { ManualClock } from './manual-clock.ts'

type SharedParts =
  | 'metricMemory'
  | 'logouts'
  | 'adminLogouts'
  | 'wrongSecrets'
  | 'wrongTokens'
  | 'lacksIssuedKeys'
  | 'shares'
  | 'bodyMemory'
  | 'backendSlots'
  | 'backendHealth'
  | 'secrets'
  | 'slots'
  | 'reservations'
  | 'onPlanActive'
  | 'onStreamCut'
  | 'control'

/** What a server shares with others, for one that is alone. */
export function serverMemory(): Pick<ServerParts, SharedParts> {
  const memory = newReservationMemory({ workers: 1, secret: undefined, saved: undefined, wallMs: 0 })
  const backendSlots = new BackendSlots(newBackendsBuffer(1), 1)
  return {
    backendSlots,
    backendHealth: new BackendHealth({ slots: backendSlots, clock: new ManualClock(), worker: 1, hashKey: [1, 2] }),
    secrets: new WorkerSecrets(),
    reservations: { memory, worker: 1, callerDigest: () => '0'.repeat(16), sharedMarks: undefined },
    onPlanActive: () => {},
    onStreamCut: () => {},
    control: new ControlLink(() => {}),
    metricMemory: new MetricMemory(newMetricBuffer(2), 1),
    logouts: new RevokedSessions(newRevokedBuffer(), 2),
    adminLogouts: new RevokedSessions(newRevokedBuffer(), 2),
    wrongSecrets: new WrongSecrets(newWrongSecretsBuffer()),
    wrongTokens: new WrongSecrets(newWrongSecretsBuffer()),
    lacksIssuedKeys: () => false,
    shares: new ConnectionShares(newSharesBuffer(1), 1),
    bodyMemory: new BodyMemory(newBodyMemoryBuffer(1), 1, {
      bodyMemoryBytes: 256 * 1024 ** 2,
      maxBodyBytes: 16 * 1024 ** 2,
      hashKey: [1, 2],
    }),
    slots: connectionSlotsOf(newSlotsBuffer(1), 1, { main: 1000, socket: 1000, grpc: 1000, grpc_socket: 1000, admin: 1000, backend: 1000 }),
  }
}
