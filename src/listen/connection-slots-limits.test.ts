import { describe, expect, test } from 'vitest'
import { readConfig, type ServerConfig } from '../config/config.ts'
import { descriptorLimit } from '../files/descriptor-limit.ts'
import { connectionLimits } from './connection-slots.ts'

describe('the limit of open files', () => {
  test.each([256, 1024, 20_000, 1_048_576])('%i: all connections together leave a reserve', (limit) => {
    for (const workers of [1, 2, 4]) {
      for (const env of [
        {},
        PROXY,
        { ...PROXY, EDGE_BACKEND_MAX_CONNECTIONS: '9' },
        { ...PROXY, EDGE_BACKEND_MAX_CONNECTIONS: '9999999' },
      ]) {
        const { main, admin, backend } = connectionLimits(limit, config({ ...env, EDGE_WORKERS: String(workers) }))
        expect(limit - main - admin - backend).toBeGreaterThanOrEqual(40 + 20 * workers)
      }
    }
  })

  test('each client of a proxy can have a connection to the backend, unless fewer are asked for', () => {
    const { main, backend } = connectionLimits(1024, config(PROXY))
    expect(main - backend).toBeGreaterThanOrEqual(0)
    expect(main - backend).toBeLessThanOrEqual(1)
    const few = connectionLimits(1024, config({ ...PROXY, EDGE_BACKEND_MAX_CONNECTIONS: '9' }))
    expect([few.backend, few.main]).toEqual([9, main + backend - 9])
  })

  test('a decision service has no backend', () => {
    expect(connectionLimits(1024, config({}))).toEqual({ ...NONE, main: 1024 - 40 - 20 - 32, admin: 32 })
  })

  test('a unix socket shares with the port, and has all where there is no port', () => {
    const all = 1024 - 40 - 20 - 32
    expect(connectionLimits(1024, config({ EDGE_SOCKET: 's' }))).toEqual({ ...NONE, main: all / 2, socket: all / 2, admin: 32 })
    expect(connectionLimits(1024, config({ EDGE_SOCKET: 's', EDGE_PORT: 'off' }))).toEqual({ ...NONE, socket: all, admin: 32 })
  })

  test('Redis has its share', () => {
    const [without, beside] = [config({}), config({ EDGE_REDIS_URL: 'redis://127.0.0.1' })]
    expect(connectionLimits(1024, beside).main).toBeLessThan(connectionLimits(1024, without).main)
  })

  test.each([0, 64])('even %i leave a few', (limit) => {
    expect(connectionLimits(limit, config(PROXY))).toEqual({ ...NONE, main: 4, admin: 32, backend: 4 })
  })

  test('no limit at all', () => {
    const { main, backend } = connectionLimits(Number.POSITIVE_INFINITY, config(PROXY))
    expect([Number.isSafeInteger(main), Number.isSafeInteger(backend), main > 1e6]).toEqual([true, true, true])
  })

  test('is known for this process', () => {
    expect(descriptorLimit()).toBeGreaterThan(100)
  })
})

const NONE = { main: 0, socket: 0, grpc: 0, grpc_socket: 0, admin: 0, backend: 0 }
const PROXY = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1' }

function config(env: Readonly<Record<string, string>>): ServerConfig {
  const result = readConfig({ EDGE_WORKERS: '1', ...env }, {})
  if (!result.ok) throw new Error(result.problems.join('\n'))
  return result.config
}
