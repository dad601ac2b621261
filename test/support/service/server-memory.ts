import { type ConnectionKind, ConnectionPlaces, newPlacesBuffer } from '../../../src/server/connection-places.ts'
import { ConnectionShares, newSharesBuffer } from '../../../src/server/connection-shares.ts'
import { MetricMemory, newMetricBuffer } from '../../../src/server/metrics/metric-memory.ts'
import { BodyMemory, newBodyMemoryBuffer } from '../../../src/server/proxy/body-memory.ts'
import { newRevokedBuffer, RevokedSessions } from '../../../src/server/revoked-sessions.ts'
import type { ServerParts } from '../../../src/server/server.ts'
import { newWrongSecretsBuffer, WrongSecrets } from '../../../src/server/wrong-secrets.ts'

/** The memory that a server shares with others, for one that is alone. */
export function serverMemory(): Pick<ServerParts, 'metricMemory' | 'logouts' | 'wrongSecrets' | 'shares' | 'bodyMemory' | 'places'> {
  const buffer = newPlacesBuffer(1)
  const places = (kind: ConnectionKind): ConnectionPlaces => new ConnectionPlaces(buffer, 1, kind, 1000)
  return {
    metricMemory: new MetricMemory(newMetricBuffer(2), 1),
    logouts: new RevokedSessions(newRevokedBuffer(), 2),
    wrongSecrets: new WrongSecrets(newWrongSecretsBuffer()),
    shares: new ConnectionShares(newSharesBuffer(1), 1),
    bodyMemory: new BodyMemory(newBodyMemoryBuffer(1), 1, 256 * 1024 ** 2),
    places: { main: places('main'), admin: places('admin'), backend: places('backend') },
  }
}
