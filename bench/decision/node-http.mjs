// A floor: what node:http takes to read a request and to say nothing.
import { createServer } from 'node:http'

const server = createServer((_req, res) => res.end())
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }))
