import { describe, expect, onTestFinished, test } from 'vitest'
import { replaceFile } from '../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { valuesOf } from '../support/proxy/proxy.ts'
import { Load } from '../support/service/load.ts'
import { decisionBytes, original } from '../support/service/wire.ts'
import { until } from '../support/until.ts'
import { Crowd } from '../support/workers/crowd.ts'
import { type MortalEdge, mortalEdge } from '../support/workers/mortal-edge.ts'

/** Every answer names the version that it comes from, by the name of its rule. */
function named(version: number): object {
  return bundle(version, policy(`v${version}`, { rules: [bucketRule('r', [], 1_000_000)] }))
}

describe('bundles and deaths', () => {
  test('one that a worker does not live to make ready becomes active all the same, on all, and on the one that takes its place', async () => {
    const mortal = await mortalEdge(2, { bundle: named(1) })
    const load = new Load(mortal.port, original('/'), 4)
    onTestFinished(() => load.stop())
    await mortal.host.end(2, 'hang')
    await replaceFile(mortal.edge.bundlePath, JSON.stringify(named(2)))
    await until(() => mortal.host.sent(1, 'prepare') === 2)
    const target = load.total + 50
    await until(() => load.total > target)
    // As long as one is missing, none has turned.
    expect([...load.allowedBy.keys()]).toEqual(['"v1"'])
    expect(mortal.edge.service.bundle()).toMatchObject({ version: '1' })

    await mortal.host.terminate(2)
    await until(() => mortal.edge.service.bundle()?.version === '2')
    await mortal.untilReplaced()
    await load.stop()
    expect(await versions(mortal)).toEqual(new Set(['"v2"']))

    await mortal.edge.publish(named(3))
    expect(await versions(mortal)).toEqual(new Set(['"v3"']))
  })

  test('a worker that starts while a bundle is made ready joins in', async () => {
    const mortal = await mortalEdge(3, { bundle: named(1) })
    await mortal.host.end(2, 'hang')
    await replaceFile(mortal.edge.bundlePath, JSON.stringify(named(2)))
    await until(() => mortal.host.sent(1, 'prepare') === 2)
    await mortal.host.terminate(1)
    await mortal.untilReplaced()
    expect(mortal.edge.service.bundle()).toMatchObject({ version: '1' })

    await mortal.host.terminate(2)
    await until(() => mortal.edge.service.bundle()?.version === '2')
    await mortal.untilReplaced(2)
    expect(await versions(mortal)).toEqual(new Set(['"v2"']))
  })
})

/** Of the rules that answer on connections to all workers. */
async function versions({ port }: MortalEdge): Promise<Set<string>> {
  const crowd = await Crowd.gather(port)
  const answers = await crowd.ask(decisionBytes(original('/')))
  for (const { socket } of crowd.clients) socket.destroy()
  return new Set(answers.map((answer) => valuesOf(answer, 'RateLimit')[0]!.split(';')[0]!))
}
