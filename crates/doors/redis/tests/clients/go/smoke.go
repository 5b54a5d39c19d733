// go-redis, unmodified, against the door on the port that is the only argument.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func same(got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		log.Panicf("%#v is not %#v", got, wanted)
	}
}

func value[T any](value T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return value
}

func everyday(r *redis.Client) {
	same(value(r.FlushAll(ctx).Result()), "OK")
	same(value(r.Set(ctx, "a", 1, time.Minute).Result()), "OK")
	same(value(r.Incr(ctx, "a").Result()), int64(2))
	_, err := r.Get(ctx, "none").Result()
	same(err, redis.Nil)
	replies := value(r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 100 {
			pipe.RPush(ctx, "list", number)
		}
		return nil
	}))
	same(replies[99].(*redis.IntCmd).Val(), int64(100))
	replies = value(r.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "x", 1, 0)
		pipe.Incr(ctx, "x")
		return nil
	}))
	same(replies[1].(*redis.IntCmd).Val(), int64(2))
	r.HSet(ctx, "hash", "f", "1", "g", "2")
	same(value(r.HGetAll(ctx, "hash").Result()), map[string]string{"f": "1", "g": "2"})
	r.ZAdd(ctx, "sorted", redis.Z{Score: 1.5, Member: "m"}, redis.Z{Score: 2, Member: "n"})
	ranked := []redis.Z{{Score: 1.5, Member: "m"}, {Score: 2, Member: "n"}}
	same(value(r.ZRangeWithScores(ctx, "sorted", 0, -1).Result()), ranked)
	found := map[string]bool{}
	for scan := r.Scan(ctx, 0, "*", 2).Iterator(); scan.Next(ctx); {
		found[scan.Val()] = true
	}
	same(len(found), 5)
	script := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
	same(value(script.Run(ctx, r, []string{"a"}, 5).Int64()), int64(7))
	if err := r.LPush(ctx, "a", "x").Err(); err == nil {
		log.Panic("a string is no list")
	}
	id := value(r.XAdd(ctx, &redis.XAddArgs{Stream: "log", Values: []string{"f", "v"}}).Result())
	r.XGroupCreate(ctx, "log", "g", "0")
	read := value(r.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"log", ">"}}).Result())
	same(read[0].Messages[0].ID, id)
	same(value(r.XAck(ctx, "log", "g", id).Result()), int64(1))
}

// Increments with WATCH, by several at once: none is lost.
func watching(r *redis.Client) {
	const clients, increments = 4, 10
	var all sync.WaitGroup
	for range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			for done := 0; done < increments; {
				err := r.Watch(ctx, func(tx *redis.Tx) error {
					count, err := tx.Get(ctx, "watched").Int()
					if err != nil && !errors.Is(err, redis.Nil) {
						return err
					}
					_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
						return pipe.Set(ctx, "watched", count+1, 0).Err()
					})
					return err
				}, "watched")
				if err == nil {
					done++
				} else if !errors.Is(err, redis.TxFailedErr) {
					log.Panic(err)
				}
			}
		}()
	}
	all.Wait()
	same(value(r.Get(ctx, "watched").Int()), clients*increments)
}

func waiting(r *redis.Client) {
	_, err := r.BLPop(ctx, time.Second, "none").Result()
	same(err, redis.Nil)
	popped := make(chan []string)
	go func() { popped <- value(r.BLPop(ctx, 10*time.Second, "queue").Result()) }()
	time.Sleep(50 * time.Millisecond)
	r.RPush(ctx, "queue", "job")
	same(<-popped, []string{"queue", "job"})
}

func messages(r *redis.Client) {
	heard := r.Subscribe(ctx, "news")
	defer heard.Close()
	value(heard.Receive(ctx))
	same(value(r.Publish(ctx, "news", "it rains").Result()), int64(1))
	message := value(heard.ReceiveMessage(ctx))
	same([]string{message.Channel, message.Payload}, []string{"news", "it rains"})
}

func main() {
	log.SetFlags(0)
	for _, protocol := range []int{2, 3} {
		r := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		everyday(r)
		watching(r)
		waiting(r)
		messages(r)
		r.Close()
	}
	fmt.Println("go-redis works")
}
