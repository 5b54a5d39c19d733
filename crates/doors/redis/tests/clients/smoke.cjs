// ioredis, unmodified, against the door on the port that is the only argument.
const assert = require('node:assert');
const Redis = require('ioredis');

async function main() {
  const redis = new Redis({ port: Number(process.argv[2]) });
  await redis.flushall();
  assert.equal(await redis.set('a', '1'), 'OK');
  assert.equal(await redis.incr('a'), 2);
  assert.deepEqual(await redis.multi().incr('a').get('a').exec(), [[null, 3], [null, '3']]);
  assert.deepEqual(await redis.pipeline().set('b', 2).get('b').exec(), [[null, 'OK'], [null, '2']]);
  await redis.hset('h', { f: 1 });
  assert.deepEqual(await redis.hgetall('h'), { f: '1' });
  await redis.zadd('z', 1.5, 'm');
  assert.deepEqual(await redis.zrange('z', 0, -1, 'WITHSCORES'), ['m', '1.5']);
  assert.equal(await redis.blpop('none', 0.05), null);
  const found = [];
  for await (const keys of redis.scanStream()) found.push(...keys);
  assert.deepEqual(found.sort(), ['a', 'b', 'h', 'z']);
  await assert.rejects(redis.lpush('a', 'x'), /WRONGTYPE/);
  redis.defineCommand('addTo', { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
  assert.equal(await redis.addTo('a', 4), 7);
  await redis.watch('b');
  assert.deepEqual(await redis.multi().incr('b').exec(), [[null, 3]]);
  await redis.watch('b');
  const third = new Redis({ port: Number(process.argv[2]) });
  await third.set('b', 2);
  third.disconnect();
  assert.equal(await redis.multi().incr('b').exec(), null);
  const other = new Redis({ port: Number(process.argv[2]) });
  const popped = other.blpop('queue', 10);
  await redis.rpush('queue', 'job');
  assert.deepEqual(await popped, ['queue', 'job']);
  const heard = [];
  other.on('message', (channel, message) => heard.push([channel, message]));
  other.on('pmessage', (pattern, channel, message) => heard.push([pattern, channel, message]));
  assert.equal(await other.subscribe('news', 'more'), 2);
  assert.equal(await other.psubscribe('n*'), 3);
  assert.equal(await redis.publish('news', 'it rains'), 2);
  for (let waited = 0; heard.length < 2 && waited < 500; waited += 1) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.deepEqual(heard, [['news', 'it rains'], ['n*', 'news', 'it rains']]);
  assert.equal(await other.punsubscribe('n*'), 2);
  assert.equal(await other.unsubscribe(), 0);
  assert.equal(await other.get('b'), '2');
  const read = other.xread('BLOCK', 10000, 'STREAMS', 'log', '$');
  await new Promise((resolve) => setTimeout(resolve, 50));
  const id = await redis.xadd('log', '*', 'f', 'v');
  assert.deepEqual(await read, [['log', [[id, ['f', 'v']]]]]);
  await redis.geoadd('place', 13.361389, 38.115556, 'p');
  assert.deepEqual(await redis.geosearch('place', 'FROMLONLAT', 13, 38, 'BYRADIUS', 100, 'km'), ['p']);
  other.disconnect();
  redis.disconnect();
  console.log('ioredis works');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
