import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { scratchDirectory } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'
import { addressOf, askedInFields, example, type Gateway, substituted, timed, variantOf } from './gateway.ts'
import { missingUnless, runningGateway } from './gateway-process.ts'

export const HAPROXY: Gateway = haproxyWith({})

/** With these in place of the example's files. */
export function haproxyWith({ cfg = example('haproxy/haproxy.cfg'), lua = example('haproxy/edge.lua') }): Gateway {
  return {
    name: 'HAProxy',
    missing: missingUnless('haproxy', ['-v'], 'HAProxy'),
    door: 'decision',
    asked: askedInFields('original'),
    limits: {},
    async start({ edge, backend, edgeMayTake }, variant, owner) {
      const [directory, port] = [await scratchDirectory(owner), await serverPort()]
      // Its name is known to the whole machine.
      const socket = { 'abns@edge': `abns@edge-test-${port}` }
      const configuration = substituted(timed(cfg, edgeMayTake), {
        'bind :80\n': `bind 127.0.0.1:${port}\n`,
        '127.0.0.1:8080': addressOf(edge, 'unix@'),
        '127.0.0.1:3000': `127.0.0.1:${backend}`,
        ...socket,
      })
      await writeFile(join(directory, 'haproxy.cfg'), configuration)
      await writeFile(join(directory, 'edge.lua'), substituted(variantOf(timed(lua, edgeMayTake), variant), socket))
      return runningGateway({ program: 'haproxy', args: ['-db', '-f', 'haproxy.cfg'], directory, port }, owner)
    },
  }
}
