import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { scratchDirectory } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'
import { addressOf, askedInFields, example, type Gateway, substituted, timed, variantOf } from './gateway.ts'
import { missingUnless, runningGateway } from './gateway-process.ts'

export const CADDY: Gateway = caddyWith(example('caddy/Caddyfile'))

/** With this Caddyfile in place of the example. */
export function caddyWith(caddyfile: string, goEnv: Readonly<Record<string, string>> = {}): Gateway {
  return {
    name: 'Caddy',
    missing: missingUnless('caddy', ['version'], 'Caddy'),
    door: 'forward_auth',
    asked: askedInFields('forwarded'),
    limits: { noKeepAlive: true },
    async start({ edge, backend, edgeMayTake }, variant, owner) {
      const [directory, port] = [await scratchDirectory(owner), await serverPort()]
      const caddyfileHere = substituted(variantOf(timed(caddyfile, edgeMayTake), variant), {
        '{\n\tservers': '{\n\tadmin off\n\tservers',
        ':80 {': `:${port} {\nbind 127.0.0.1\n`,
        '127.0.0.1:8080': addressOf(edge, 'unix/'),
        '127.0.0.1:3000': `127.0.0.1:${backend}`,
      })
      await writeFile(join(directory, 'Caddyfile'), caddyfileHere)
      const env = { ...goEnv, HOME: directory, XDG_DATA_HOME: directory, XDG_CONFIG_HOME: directory }
      return runningGateway({ program: 'caddy', args: ['run', '--config', 'Caddyfile'], directory, port, env }, owner)
    },
  }
}
