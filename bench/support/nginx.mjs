import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort, listening } from '../decision/free-port.mjs'
import { MEASURED, startProgram } from './processes.mjs'
import { newScratchDirectory } from './scratch.mjs'

/** Starts nginx with one worker that logs nothing; `httpOf` returns what its `http` block has beside that. */
export async function startNginxWith(file, connections, httpOf) {
  const directory = newScratchDirectory()
  const port = await freePort()
  const path = join(directory, 'nginx.conf')
  writeFileSync(path, configuration(directory, connections, httpOf(port)))
  const child = startProgram(MEASURED, file, ['-e', 'stderr', '-p', directory, '-c', path])
  await listening(port)
  return Object.assign(child, { port })
}

function configuration(directory, connections, http) {
  return `
daemon off;
worker_processes 1;
pid ${directory}/nginx.pid;
error_log stderr crit;
events { worker_connections ${connections}; }
http {
  access_log off;
  client_body_temp_path ${directory}/body;
  proxy_temp_path ${directory}/proxy;
  fastcgi_temp_path ${directory}/fastcgi;
  uwsgi_temp_path ${directory}/uwsgi;
  scgi_temp_path ${directory}/scgi;
  keepalive_requests 1000000000;
${http}
}
`
}
