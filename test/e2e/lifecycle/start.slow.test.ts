import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { urlEnv } from '../../support/bundles/bundle-url.ts'
import { silentServer } from '../../support/bundles/silent-server.ts'
import { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import type { Owner } from '../../support/service/running.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'

const FIRST_BUNDLE_MS = 10_000

test('a worker that dies while the first bundle is waited for is replaced, and the start goes on', async (t) => {
  const { server, answer } = await silentServer(t)
  const adminPort = await serverPort()
  const env = urlEnv(server.url, { EDGE_ADMIN_PORT: String(adminPort), EDGE_WORKERS: '2' })
  // No answer is waited for too long; a worker is replaced as soon as ever.
  const pause = (ms: number): Promise<unknown> => (ms < FIRST_BUNDLE_MS ? sleep(ms) : new Promise(() => {}))
  const starting = mortalEdge(2, { env, pause }, (host) => {
    void until(async () => (await ask(adminPort, 'GET', '/livez').catch(() => undefined))?.status === 200)
      .then(() => host.terminate(2))
      .then(() => until(() => server.requests.length > 0))
      .then(answer)
  })
  const mortal = await starting
  expect(mortal.events('worker_died')).toMatchObject([{ worker: 2 }])
  expect(mortal.events('worker_replaced')).toMatchObject([{ worker: 2 }])
  expect((await mortal.edge.decide()).status).toBe(200)
})

test.concurrent('a signal while the first bundle is waited for ends the process, and the port never opens', async (t) => {
  const { server } = await silentServer(t)
  const cli = await waitingForBundle(server.url, t)
  await until(() => server.requests.length > 0)
  expect(await cli.stop()).toBe(0)
  expect(cli.log.map(({ event }) => event)).toEqual(['admin_listening', 'waiting_for_bundle', 'stopping', 'stopped'])
  expect(await untilLogged(cli, 'stopping')).toMatchObject([{ reason: 'SIGTERM', drain_ms: 0 }])
  expect(cli.stdout).toBe('')
})

/**
 * The wait is logged after three seconds, and the request is given up ten seconds after it was sent: where a busy machine took most of that for
 * the workers, the port opens without a word, and another process is tried.
 */
async function waitingForBundle(url: string, owner: Owner): Promise<Cli> {
  for (;;) {
    const cli = new Cli(['serve'], {
      EDGE_PORT: '0',
      EDGE_HOST: '127.0.0.1',
      EDGE_WORKERS: '1',
      EDGE_DRAIN_MS: '60000',
      ...urlEnv(url, { EDGE_ADMIN_PORT: '0' }),
    })
    owner.onTestFinished(() => void cli.process.kill('SIGKILL'))
    await until(() => cli.logged('waiting_for_bundle').length > 0 || cli.stdout !== '' || cli.process.exitCode !== null)
    if (cli.stdout === '') return cli
    cli.process.kill('SIGKILL')
    await cli.exited
  }
}
