// A collector that takes everything and keeps nothing.
import { createServer } from 'node:http'

const server = createServer((req, res) => {
  req.resume()
  req.on('end', () => res.writeHead(200, { 'Content-Type': 'application/json' }).end('{}'))
})
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }))
