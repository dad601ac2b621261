import { readdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import type { Cli } from '../support/service/cli.ts'
import { ask } from '../support/service/http.ts'
import { serving } from '../support/service/running.ts'
import { socketPath } from '../support/service/unix-socket.ts'

const ROUNDS = 6
const INSTANCES = 4

test('of instances that start at once on a path that a crash left behind, exactly one gets it, again and again', async () => {
  const env = { EDGE_PORT: 'off', EDGE_SOCKET: await socketPath() }
  for (let round = 0; round < ROUNDS; round++) {
    const all = await Promise.all(Array.from({ length: INSTANCES }, () => serving(env)))
    const isUp = (cli: Cli): boolean => cli.stdout.includes('listens')
    const [winner, ...others] = all.toSorted((a, b) => Number(isUp(b)) - Number(isUp(a)))
    expect([isUp(winner!), ...others.map(isUp)]).toEqual([true, false, false, false])
    expect(await Promise.all(others.map(({ exited }) => exited))).toEqual([1, 1, 1])
    for (const { stderr } of others) expect(stderr).toContain('is in use by another process')
    expect((await ask(env.EDGE_SOCKET, 'GET', '/livez')).status).toBe(200)
    await winner!.stop(round < ROUNDS - 1 ? 'SIGKILL' : 'SIGTERM')
  }
  expect(readdirSync(dirname(env.EDGE_SOCKET))).toEqual([])
})
