import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { scratchDirectory, thisTest } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'
import { addressOf, askedInFields, example, type Gateway, substituted, timed, variantOf } from './gateway.ts'
import { missingUnless, runningGateway } from './gateway-process.ts'

export const NGINX: Gateway = nginxWith(example('nginx/edge.conf'))

/** With this configuration in place of the example. */
export function nginxWith(configuration: string): Gateway {
  return {
    name: 'nginx',
    missing: missingUnless('nginx', ['-v']),
    door: 'decision',
    asked: askedInFields('original'),
    limits: { noDebugFields: true },
    start: ({ edge, backend, edgeMayTake }, variant, owner) =>
      runningNginx(
        (port) =>
          substituted(variantOf(timed(configuration, edgeMayTake), variant), {
            'listen 80;': `listen 127.0.0.1:${port};`,
            '127.0.0.1:8080': addressOf(edge, 'unix:'),
            '127.0.0.1:3000': `127.0.0.1:${backend}`,
          }),
        owner,
      ),
  }
}

/** nginx with this text inside `http`, for as long as the test runs. Returns its port. */
export async function runningNginx(configure: (port: number) => string, owner = thisTest): Promise<number> {
  const [directory, port] = [await scratchDirectory(owner), await serverPort()]
  const file = join(directory, 'nginx.conf')
  await writeFile(file, wholeConfiguration(directory, configure(port)))
  return runningGateway({ program: 'nginx', args: ['-e', 'stderr', '-p', directory, '-c', file], directory, port }, owner)
}

// One process that serves by itself: it ends when it is told to, and nobody else has to be able to write here.
function wholeConfiguration(directory: string, http: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path ${directory}/${kind};`)
  return `daemon off;
master_process off;
pid ${directory}/nginx.pid;
error_log stderr emerg;
events { worker_connections 256; }
http {
${http.includes('access_log') ? '' : 'access_log off;'}
${temporary.join('\n')}
${http}
}
`
}
