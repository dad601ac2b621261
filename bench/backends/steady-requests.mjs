// Sends so many requests a second, whatever becomes of them, each on a connection of its own.
import { Agent, request } from 'node:http'

const agent = new Agent({ keepAlive: false })
const counts = { answered: 0, failed: 0 }

process.on('message', ({ task, port, path, perSecond }) => {
  if (task === 'begin') setInterval(() => send(port, path), 1000 / perSecond)
  process.send({ ...counts })
  counts.answered = counts.failed = 0
})
process.send({ port: 0 })

function send(port, path) {
  const req = request({ port, host: '127.0.0.1', path, agent }, (res) => {
    counts[res.statusCode === 200 ? 'answered' : 'failed']++
    res.resume()
  })
  req.on('error', () => counts.failed++)
  req.end()
}
