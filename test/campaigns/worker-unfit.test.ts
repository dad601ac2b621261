import { expect, test } from 'vitest'
import type { ToWorker } from '../../src/control/thread-messages.ts'
import type { WorkerHost } from '../../src/runtime/threads/worker-host.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { decisionBytes, original } from '../support/service/wire.ts'
import { Crowd } from '../support/workers/crowd.ts'
import { mortalEdge } from '../support/workers/mortal-edge.ts'

test('a worker that takes the place of another and cannot load the active bundle never serves', async () => {
  const lives = { count: 0 }
  const mortal = await mortalEdge(2, {
    bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 1_000_000)] })),
    // The second life of worker 1 gets a bundle that it cannot read.
    aroundHost: (host) => spoiling(host, (worker) => worker === 1 && ++lives.count === 2),
  })
  mortal.age()
  await mortal.host.terminate(1)
  await mortal.untilReplaced()
  const crowd = await Crowd.gather(mortal.port)
  const answers = await crowd.ask(decisionBytes(original('/')))
  for (const { socket } of crowd.clients) socket.destroy()
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
  expect(await untilLogged(mortal.edge, 'worker_unfit')).toEqual([
    expect.objectContaining({ level: 50, worker: 1, problem: expect.stringContaining('it cannot be compiled') }),
  ])
  expect(mortal.events('worker_died')).toHaveLength(2)
})

/** Where some workers, asked of at their start, are told of bundles whose bytes are damaged. */
function spoiling(host: WorkerHost, isSpoilt: (worker: number) => boolean): WorkerHost {
  return {
    bind: (...args) => host.bind(...args),
    startWorker(worker, memory, listener) {
      const link = host.startWorker(worker, memory, listener)
      if (!isSpoilt(worker)) return link
      const damaged = (message: ToWorker): ToWorker =>
        message.type === 'prepare' ? { ...message, bundle: { ...message.bundle, pieces: [new SharedArrayBuffer(9)] } } : message
      return { send: (message) => link.send(damaged(message)), terminate: () => link.terminate() }
    },
  }
}
