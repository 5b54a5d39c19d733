// Jedis, unmodified, against the door on the port that is the only argument.

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.XAddParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.resps.ScanResult;

public class Smoke {
    private static int port;

    private static Jedis connect(RedisProtocol protocol) {
        return new Jedis(new HostAndPort("127.0.0.1", port), DefaultJedisClientConfig.builder().protocol(protocol).build());
    }

    private static void same(Object got, Object wanted) {
        if (!wanted.equals(got)) {
            throw new AssertionError(got + " is not " + wanted);
        }
    }

    private static void everyday(Jedis r) {
        same(r.flushAll(), "OK");
        same(r.set("a", "1", new SetParams().ex(60)), "OK");
        same(r.incr("a"), 2L);
        Pipeline pipe = r.pipelined();
        Response<Long> last = null;
        for (int number = 0; number < 100; number++) {
            last = pipe.rpush("list", String.valueOf(number));
        }
        pipe.sync();
        same(last.get(), 100L);
        Transaction transaction = r.multi();
        transaction.set("x", "1");
        transaction.incr("x");
        same(transaction.exec(), List.of("OK", 2L));
        r.watch("x");
        try (Jedis other = connect(RedisProtocol.RESP2)) {
            other.set("x", "7");
        }
        transaction = r.multi();
        transaction.incr("x");
        List<Object> replies = transaction.exec();
        same(replies == null || replies.isEmpty(), true);
        same(r.get("x"), "7");
        r.hset("hash", Map.of("f", "1", "g", "2"));
        same(r.hgetAll("hash"), Map.of("f", "1", "g", "2"));
        r.zadd("sorted", Map.of("m", 1.5, "n", 2.0));
        same(r.zrange("sorted", 0, -1), List.of("m", "n"));
        same(r.zscore("sorted", "m"), 1.5);
        Set<String> found = new HashSet<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> page = r.scan(cursor, new ScanParams().count(2));
            found.addAll(page.getResult());
            cursor = page.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        same(found, Set.of("a", "list", "x", "hash", "sorted"));
        String digest = r.scriptLoad("return redis.call('incrby', KEYS[1], ARGV[1])");
        same(r.evalsha(digest, List.of("a"), List.of("5")), 7L);
        try {
            r.lpush("a", "x");
            throw new AssertionError("a string is no list");
        } catch (JedisDataException error) {
            same(error.getMessage().startsWith("WRONGTYPE"), true);
        }
        StreamEntryID id = r.xadd("log", Map.of("f", "v"), new XAddParams());
        same(r.xgroupCreate("log", "g", new StreamEntryID("0-0"), false), "OK");
        var read = r.xreadGroup("g", "c", new XReadGroupParams().count(1), Map.of("log", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
        same(read.get(0).getValue().get(0).getID(), id);
        same(r.xack("log", "g", id), 1L);
    }

    private static void waiting(Jedis r, RedisProtocol protocol) throws InterruptedException {
        same(r.blpop(1, "none") == null, true);
        List<String> popped = new ArrayList<>();
        Thread waits = new Thread(() -> {
            try (Jedis other = connect(protocol)) {
                popped.addAll(other.blpop(10, "queue"));
            }
        });
        waits.start();
        Thread.sleep(100);
        r.rpush("queue", "job");
        waits.join();
        same(popped, List.of("queue", "job"));
    }

    private static void messages(Jedis r, RedisProtocol protocol) throws InterruptedException {
        List<String> heard = new ArrayList<>();
        Thread listens = new Thread(() -> {
            try (Jedis other = connect(protocol)) {
                other.subscribe(new JedisPubSub() {
                    @Override
                    public void onMessage(String channel, String message) {
                        heard.add(channel + ": " + message);
                        unsubscribe();
                    }
                }, "news");
            }
        });
        listens.start();
        for (int tries = 0; r.publish("news", "it rains") == 0; tries++) {
            same(tries < 500, true);
            Thread.sleep(10);
        }
        listens.join();
        same(heard, List.of("news: it rains"));
    }

    public static void main(String[] arguments) throws InterruptedException {
        port = Integer.parseInt(arguments[0]);
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            try (Jedis r = connect(protocol)) {
                everyday(r);
                waiting(r, protocol);
                messages(r, protocol);
            }
        }
        System.out.println("Jedis works");
    }
}
