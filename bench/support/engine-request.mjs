import { bearer } from './bundle.mjs'

/** A request as a server would show it to the engine; only the key changes. */
export class EngineRequest {
  method = 'GET'
  uri = '/api/v1/users/42?full=1'
  host = 'api.example.com'
  key = ''
  authorization = bearer()

  header(name) {
    if (name === 'x-api-key') return this.key
    return name === 'authorization' ? this.authorization : undefined
  }
}

/** Through a buffer, so that they are plain strings like those a socket brings, not pieces that V8 joins when read. */
export function newKeys(count) {
  return Array.from({ length: count }, (_, i) => Buffer.from(`key-${i}-${(i * 2_654_435_761) >>> 0}`).toString('latin1'))
}
